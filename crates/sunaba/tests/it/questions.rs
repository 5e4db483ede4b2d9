//! Agents that ask before they act, in real sandboxes: answered from elsewhere, at the keyboard, after the server was
//! killed, and by real Claude Code.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Server, git, repository, sunaba, until, wait};

/// A task whose agent asks, at a server.
struct Asking {
    server: Server,
    repo: PathBuf,
}

impl Asking {
    fn at(server: Server) -> Self {
        let repo = repository(server.data.path());
        Self { server, repo }
    }

    /// The command that gives the task.
    fn task(&self, script: &str) -> Command {
        let file = self.server.data.path().join("script.yaml");
        std::fs::write(&file, script).unwrap();
        let mut run = sunaba(self.server.data.path());
        run.args(["run", "--permission-mode", "ask", "--egress", "none", "--repo"]).arg(&self.repo);
        run.args(["--model", &format!("script:{}", file.display())]);
        run
    }

    /// Gives the task and leaves it to itself.
    fn give(&self, script: &str) {
        let ran = crate::support::Ran::of(self.task(script).args(["--detach", "Do it"]));
        ran.expect_code(0);
    }

    /// The only open question, which must come.
    fn question(&self) -> Value {
        let mut open = Value::Null;
        until("a question", || {
            open = self.server.json(&["questions"]);
            open.as_array().is_some_and(|open| !open.is_empty())
        });
        assert_eq!(open.as_array().unwrap().len(), 1, "{open}");
        open[0].clone()
    }

    /// Answers the question and waits until it is no longer open.
    fn answer(&self, question: &Value, more: &[&str]) {
        let id = question["id"].as_str().unwrap();
        self.server.run(&[&["answer", id], more].concat()).expect_code(0);
    }

    /// Waits for the end, which must be a good one; the story.
    fn end(&self) -> String {
        let ran = self.server.run(&["attach", "last"]);
        ran.expect_code(0);
        ran.stdout
    }

    /// A file of the branch, if it is there.
    fn file(&self, name: &str) -> Option<String> {
        let shown = self.server.json(&["show", "last"]);
        let branch = shown["sandbox"]["branch_name"].as_str().unwrap().to_owned();
        let listed = git(&self.repo, &["ls-tree", "--name-only", &branch]);
        listed
            .lines()
            .any(|line| line == name)
            .then(|| git(&self.repo, &["show", &format!("{branch}:{name}")]))
    }
}

const TWO_COMMANDS: &str = "
- tools:
    - shell: echo wrong > a.txt
- expect:
    - tool_result_contains: the arguments were changed before it ran
  tools:
    - shell: echo also > b.txt
- expect:
    - tool_result_contains: rather not today
  text: Done.
";

#[test]
fn what_was_allowed_instead_is_done_and_why_not_is_told_to_the_model() {
    let asking = Asking::at(Server::start(&[]));
    asking.give(TWO_COMMANDS);
    let first = asking.question();
    assert_eq!(first["tool"], "Bash");
    assert_eq!(first["input"]["command"], "echo wrong > a.txt");
    asking.answer(&first, &["allow", "--input", r#"{"command": "echo right > a.txt"}"#]);
    until("the second question", || asking.server.json(&["questions"])[0]["id"] != first["id"]);
    asking.answer(&asking.question(), &["deny", "-m", "rather not today"]);
    let story = asking.end();
    assert!(story.contains("? may it use Bash?") && story.contains("    echo wrong > a.txt\n"), "{story}");
    assert!(story.contains("allowed Bash, with other arguments"), "{story}");
    assert!(story.contains("denied Bash: rather not today"), "{story}");
    assert_eq!(asking.file("a.txt").as_deref(), Some("right\n"));
    assert_eq!(asking.file("b.txt"), None);
    let again = asking.server.run(&["answer", first["id"].as_str().unwrap(), "deny"]);
    again.expect_code(1);
    assert!(again.stderr.contains("answered question"), "{}", again.stderr);
}

#[test]
fn a_question_outlives_a_killed_server_and_its_answer_arrives() {
    let mut asking = Asking::at(Server::start(&[]));
    asking.give("- tools:\n    - shell: echo asked > a.txt\n- text: Done.\n");
    let question = asking.question();
    asking.server.child.kill().unwrap();
    asking.server.child.wait().unwrap();
    let address = asking.server.url.trim_start_matches("http://").to_owned();
    let mut command = sunaba(asking.server.data.path());
    asking.server.restart(command.args(["serve", "--json", "--listen", &address]));
    assert_eq!(asking.question()["id"], question["id"], "it is still open");
    asking.answer(&question, &["allow"]);
    asking.end();
    assert_eq!(asking.file("a.txt").as_deref(), Some("asked\n"));
}

#[test]
fn what_is_typed_answers_and_everything_else_goes_to_the_agent() {
    let asking = Asking::at(Server::start(&[]));
    let script = "
- tools:
    - shell: echo one > a.txt
- tools:
    - shell: echo two > b.txt
- expect:
    - request_contains: mind the gap
    - tool_result_contains: not this one
  text: Done.
";
    let screen = asking.server.data.path().join("screen");
    let mut command = asking.task(script);
    command.args(["--stdin", "Do it"]).stdin(Stdio::piped());
    command.stdout(std::fs::File::create(&screen).unwrap()).stderr(Stdio::null());
    let mut run = command.spawn().unwrap();
    let mut keys = run.stdin.take().unwrap();
    let shows = |text: &str| std::fs::read_to_string(&screen).unwrap().contains(text);
    until("the first question", || shows("    echo one > a.txt"));
    keys.write_all(b"mind the gap\n").unwrap();
    until("the words are sent", || shows("mind the gap [sent]"));
    keys.write_all(b"a\n").unwrap();
    until("the second question", || shows("    echo two > b.txt"));
    keys.write_all(b"d not this one\n").unwrap();
    assert_eq!(wait(&mut run).code(), Some(0), "{}", std::fs::read_to_string(&screen).unwrap());
    assert_eq!(asking.file("a.txt").as_deref(), Some("one\n"));
    assert_eq!(asking.file("b.txt"), None);
}

#[test]
fn when_nobody_answers_in_time_the_policy_decides() {
    let asking = Asking::at(Server::start(&[]));
    let script = "
- tools:
    - shell: echo asked > a.txt
- expect:
    - tool_result_contains: nobody answered in time
  text: Done.
";
    let mut task = asking.task(script);
    task.args(["--question-hold", "1s", "--question-policy", "deny", "Do it"]);
    let ran = crate::support::Ran::of(&mut task);
    ran.expect_code(0);
    assert!(ran.stdout.contains("nobody answered in time: Bash is denied"), "{}", ran.stdout);
    assert!(ran.stderr.contains(" answer qst_"), "says how to answer: {}", ran.stderr);
    assert_eq!(git(&asking.repo, &["branch", "--list", "feature/*"]), "", "nothing was changed");
}

/// The first attempt is given up at its question; the next one makes the call again, which is not asked about again.
const ASKS_AND_WAITS: &str = "
- text: I write first.
  tools:
    - shell: echo asked > a.txt
- expect:
    - request_contains: I write first.
    - request_contains: It is allowed
  tools:
    - shell: echo asked > a.txt
- text: Done.
";

#[test]
fn while_nobody_answers_there_is_no_sandbox_and_the_answer_makes_the_next() {
    let asking = Asking::at(Server::start(&[]));
    let mut task = asking.task(ASKS_AND_WAITS);
    let ran = crate::support::Ran::of(task.args(["--question-hold", "1s", "Do it"]));
    ran.expect_code(4);
    assert!(ran.stdout.contains("waits   for your answer") && !ran.stdout.contains('✔'), "{}", ran.stdout);
    let question = asking.question();
    let first = question["sandbox_id"].as_str().unwrap();
    let mut shown = Value::Null;
    until("a task that waits without a sandbox", || {
        shown = asking.server.json(&["show", first]);
        shown["task"]["status"] == "waiting_input" && shown["sandbox"]["state"] == "completed"
    });
    let reason = shown["sandbox"]["reason"].as_str().unwrap();
    assert!(reason.contains("nobody has answered yet whether it may use Bash"), "{reason}");
    assert_eq!(asking.question()["id"], question["id"], "it is still open");
    asking.answer(&question, &["allow"]);
    until("the next attempt's end", || {
        shown = asking.server.json(&["show", "last"]);
        shown["sandbox"]["id"] != *first && shown["task"]["status"] == "completed"
    });
    assert_eq!(shown["sandbox"]["terms"]["resume"]["because"], "answer", "{shown}");
    assert_eq!(asking.file("a.txt").as_deref(), Some("asked\n"));
}

#[test]
fn a_task_that_waits_without_a_sandbox_can_be_stopped() {
    let asking = Asking::at(Server::start(&[]));
    let mut task = asking.task(ASKS_AND_WAITS);
    crate::support::Ran::of(task.args(["--question-hold", "1s", "Do it"])).expect_code(4);
    let mut shown = Value::Null;
    until("a task that waits without a sandbox", || {
        shown = asking.server.json(&["show", "last"]);
        shown["task"]["status"] == "waiting_input" && shown["sandbox"]["state"] == "completed"
    });
    let stopped = asking.server.run(&["stop", "last"]);
    assert!(stopped.expect_code(0).stdout.contains("no longer waits"), "{}", stopped.stdout);
    assert_eq!(asking.server.json(&["show", "last"])["task"]["status"], "cancelled");
    let again = asking.server.run(&["stop", "last"]);
    assert!(again.expect_code(0).stdout.contains("already completed"), "{}", again.stdout);
}

/// A toolchain with the CLI that `scripts/setup test` installs.
fn claude_in(dir: &Path) {
    let machine = if std::env::consts::ARCH == "aarch64" { "arm64" } else { "x64" };
    let program = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/tools/agents/claude-code-2.1.197/node_modules/@anthropic-ai")
        .join(format!("claude-code-linux-{machine}/claude"));
    assert!(program.is_file(), "{} is missing: scripts/setup test installs it", program.display());
    std::fs::create_dir(dir.join("bin")).unwrap();
    std::fs::copy(program, dir.join("bin/claude")).unwrap();
}

#[test]
fn claude_code_asks_and_does_what_was_allowed_instead() {
    let tools = tempfile::tempdir().unwrap();
    claude_in(tools.path());
    let data = tempfile::tempdir().unwrap();
    let mut serve = sunaba(data.path());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--json"]).env("SANDBOX_RUNTIME", "claude");
    let asking = Asking::at(Server::of(serve, data));
    let repo = asking.repo.to_str().unwrap();
    let script = "
- when: {no_tools: true}
  text: A title
- tools:
    - shell: echo wrong > a.txt
- text: Done.
";
    // The first use makes the project; then it gets its toolchain.
    let project = serde_json::json!({"name": "repo", "repo_path": repo, "default_branch": "main",
        "settings": {"toolchains": [tools.path()]}});
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(asking.server.post("/api/v1/projects", &project));
    asking.give(script);
    let question = asking.question();
    assert_eq!(question["input"]["command"], "echo wrong > a.txt");
    asking.answer(&question, &["allow", "--input", r#"{"command": "echo right > a.txt"}"#]);
    asking.end();
    assert_eq!(asking.file("a.txt").as_deref(), Some("right\n"));
}
