//! The worker against a server that is slow, away or done with it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use crate::server::{Mood, Server, Turn};
use crate::support::{PATIENCE, until};

pub(crate) const BRANCH: &str = "feature/x";

/// A repository with an origin, a server and the worker between them.
pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) server: Server,
    url: String,
}

pub(crate) fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .args([
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.invalid",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Makes a clone with one commit on the branch.
pub(crate) fn clone_into(workspace: &Path, origin: &Path) {
    std::fs::create_dir_all(workspace).unwrap();
    git(workspace, &["init", "--quiet"]);
    std::fs::write(workspace.join("file.txt"), "first\n").unwrap();
    git(workspace, &["add", "."]);
    git(workspace, &["commit", "--quiet", "-m", "first"]);
    git(workspace, &["checkout", "--quiet", "-b", BRANCH]);
    git(workspace, &["remote", "add", "origin", origin.to_str().unwrap()]);
}

impl Bench {
    pub(crate) async fn new(turns: Vec<Turn>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let origin = dir.path().join("origin.git");
        git(dir.path(), &["init", "--quiet", "--bare", origin.to_str().unwrap()]);
        clone_into(&dir.path().join("workspace"), &origin);
        let server = Server::new(turns);
        let url = format!("http://{}", server.listen().await);
        Self { dir, server, url }
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    pub(crate) fn start(&self) -> Child {
        self.start_with_stderr(Stdio::inherit())
    }

    fn start_with_stderr(&self, stderr: Stdio) -> Child {
        self.command().stderr(stderr).spawn().unwrap()
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sunaba-worker"));
        command
            .arg("work")
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("HOME", self.dir.path())
            .envs(crate::work::environment(&self.url))
            .env("CWD", self.workspace())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    pub(crate) async fn run(&self) -> ExitStatus {
        ended(&mut self.start()).await
    }

    pub(crate) fn pushed(&self) -> Option<String> {
        let path = self.dir.path().join("origin.git").join("refs/heads").join(BRANCH);
        std::fs::read_to_string(path).ok().map(|commit| commit.trim().to_owned())
    }
}

/// What every worker here finds in its environment.
pub(crate) fn environment(url: &str) -> Vec<(&'static str, String)> {
    vec![
        ("SANDBOX_ID", "sbx_test".to_owned()),
        ("TASK_ID", "task_test".to_owned()),
        ("CALLBACK_URL", url.to_owned()),
        ("SANDBOX_TOKEN", "the-token".to_owned()),
        ("INITIAL_PROMPT", "Do the thing\nproperly".to_owned()),
        ("MODEL", "test-model".to_owned()),
        ("ANTHROPIC_BASE_URL", format!("{url}/gateway/anthropic")),
        ("ANTHROPIC_API_KEY", "the-token".to_owned()),
        ("BRANCH_NAME", BRANCH.to_owned()),
        ("HEARTBEAT_INTERVAL", "0.1".to_owned()),
        ("MAX_TURNS", "1000".to_owned()),
        ("IS_SANDBOX", "1".to_owned()),
        ("GIT_AUTHOR_NAME", "Agent".to_owned()),
        ("GIT_AUTHOR_EMAIL", "agent@example.invalid".to_owned()),
        ("GIT_COMMITTER_NAME", "Agent".to_owned()),
        ("GIT_COMMITTER_EMAIL", "agent@example.invalid".to_owned()),
    ]
}

pub(crate) async fn ended(child: &mut Child) -> ExitStatus {
    timeout(PATIENCE, child.wait()).await.expect("the worker ends").unwrap()
}

pub(crate) fn terminate(child: &Child) {
    kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), Signal::SIGTERM).unwrap();
}

pub(crate) fn bash(command: &str) -> Turn {
    Turn::Bash(command.to_owned())
}

pub(crate) fn say(text: &str) -> Turn {
    Turn::Say(text.to_owned())
}

#[tokio::test]
async fn the_whole_story_is_told_and_the_work_is_pushed() {
    let bench = Bench::new(vec![bash("echo new > new.txt"), say("done")]).await;
    assert!(bench.run().await.success());
    let types = bench.server.types();
    assert_eq!(types.first().map(String::as_str), Some("agent.started"));
    assert_eq!(types.last().map(String::as_str), Some("agent.shutdown"));
    let started = bench.server.only("agent.started");
    assert_eq!((&started["heartbeat"], &started["sdk"]), (&json!("continuous"), &json!("sunaba-native")));
    let completed = bench.server.only("agent.completed");
    for (field, expected) in [
        ("success", json!(true)),
        ("turns", json!(2)),
        ("branch_name", json!(BRANCH)),
        ("files_changed", json!(1)),
        ("changed_files", json!(["new.txt"])),
        ("code_committed", json!(true)),
        ("code_pushed", json!(true)),
        ("final_output", json!("done")),
    ] {
        assert_eq!(completed[field], expected, "{field}: {completed}");
    }
    let pushed = bench.pushed().expect("the branch is at the origin");
    assert_eq!(completed["head_commit"], json!(pushed));
    let message = git(&bench.workspace(), &["log", "-1", "--format=%B"]);
    assert_eq!(message, "Do the thing\n\nSunaba-Sandbox: sbx_test");
    let state = bench.server.state();
    assert_eq!(state.without_token, 0, "every request shows the token");
    let ids: HashSet<_> = state.events.iter().map(|event| event["event_id"].to_string()).collect();
    assert_eq!(ids.len(), state.events.len());
    for event in &state.events {
        assert_eq!(event["event_data"]["sandbox_id"], "sbx_test", "{event}");
        assert_eq!(event["event_data"]["task_id"], "task_test", "{event}");
    }
}

#[tokio::test]
async fn an_impossible_setting_is_told_and_no_agent_starts() {
    for (name, value, words) in [
        ("PERMISSION_MODE", "plan", "bypass, acceptEdits or ask"),
        ("ENABLE_SUBAGENTS", "some", "true or false"),
        ("MAX_TURNS", "0", "a whole number from 1 to 100000"),
    ] {
        let bench = Bench::new(vec![say("done")]).await;
        let mut worker = bench.command().env(name, value).spawn().unwrap();
        assert!(!ended(&mut worker).await.success());
        let failed = bench.server.only("agent.failed");
        assert_eq!(failed["error"], format!("{name} cannot be {value:?}: {words}"));
        assert_eq!(
            (&failed["phase"], &failed["error_class"]),
            (&json!("configuration"), &json!("configuration"))
        );
        assert!(bench.server.state().model_requests.is_empty());
    }
}

#[tokio::test]
async fn the_token_is_in_no_event() {
    let shown = bash("echo \"first $SANDBOX_TOKEN last\"; echo $SANDBOX_TOKEN > file.txt");
    let write = bash("cat file.txt >&2; printf %s the-; sleep 0.2; echo token");
    let bench = Bench::new(vec![shown, write, say("it is the-token")]).await;
    assert!(bench.run().await.success());
    let state = bench.server.state();
    let told: Vec<String> = state.events.iter().map(ToString::to_string).collect();
    let with: Vec<_> = told.iter().filter(|event| event.contains("the-token")).collect();
    assert!(with.is_empty(), "{with:#?}");
    assert!(told.iter().any(|event| event.contains("first [sandbox token] last")), "{told:#?}");
}

#[tokio::test]
async fn its_own_output_tells_the_steps_and_no_secret() {
    let bench =
        Bench::new(vec![bash("echo $SANDBOX_TOKEN private-output > new.txt; cat new.txt"), say("done")])
            .await;
    let log = bench.dir.path().join("output");
    let mut worker = bench.start_with_stderr(std::fs::File::create(&log).unwrap().into());
    assert!(ended(&mut worker).await.success());
    let output = std::fs::read_to_string(&log).unwrap();
    let mut rest = output.as_str();
    for step in [
        "the worker started",
        "the agent starts",
        "tool=\"Bash\"",
        "the agent ended",
        "the work is committed",
        "the work is pushed",
        "the worker ends",
    ] {
        let at = rest.find(step).unwrap_or_else(|| panic!("{step} in its place: {output}"));
        rest = &rest[at + step.len()..];
    }
    for private in ["the-token", "private-output", "Do the thing"] {
        assert!(!output.contains(private), "{private}: {output}");
    }
}

#[tokio::test]
async fn nothing_changed_means_nothing_pushed() {
    let bench = Bench::new(vec![say("nothing to do")]).await;
    assert!(bench.run().await.success());
    let completed = bench.server.only("agent.completed");
    assert_eq!(completed["code_committed"], json!(false));
    assert_eq!(completed["code_pushed"], json!(false));
    assert_eq!(completed["files_changed"], json!(0));
    assert_eq!(bench.pushed(), None);
}

#[tokio::test]
async fn a_server_that_is_away_for_a_while_misses_nothing() {
    let bench = Bench::new(vec![bash("echo new > new.txt"), say("done")]).await;
    bench.server.state().mood = Mood::Unavailable;
    let mut worker = bench.start();
    until("the worker has tried", || bench.server.state().batches >= 3).await;
    assert_eq!(bench.server.state().heartbeats.len(), 0, "the first thing heard is the start");
    bench.server.state().mood = Mood::Taking;
    assert!(ended(&mut worker).await.success());
    let state = bench.server.state();
    let ids: HashSet<_> = state.events.iter().map(|event| event["event_id"].to_string()).collect();
    assert_eq!(ids.len(), state.events.len(), "each event once");
    assert!(state.largest_batch > 3, "what waited comes together: {}", state.largest_batch);
}

#[tokio::test]
async fn a_busy_agent_silences_nothing() {
    let bench = Bench::new(vec![bash("sleep 1.5"), say("done")]).await;
    assert!(bench.run().await.success());
    let state = bench.server.state();
    assert!(state.heartbeats.len() >= 8, "one every 0.1 s: {}", state.heartbeats.len());
    let beat = &state.heartbeats[0];
    assert_eq!(beat["event_type"], "agent.heartbeat");
    for field in ["timestamp", "status", "event_count", "memory_bytes"] {
        assert!(!beat["event_data"][field].is_null(), "{field}: {beat}");
    }
    let types: HashSet<_> = state.events.iter().map(|event| event["event_type"].to_string()).collect();
    assert!(!types.contains("\"agent.heartbeat\""), "heartbeats are never spooled");
}

#[tokio::test]
async fn a_message_reaches_the_working_agent_and_is_acknowledged() {
    let bench = Bench::new(vec![bash("sleep 0.7"), say("done")]).await;
    let mut worker = bench.start();
    until("the command runs", || bench.server.has("agent.tool_use")).await;
    let message =
        json!({"id": "msg_1", "content": "use the blue one", "message_type": "user_message", "sender": "me"});
    bench.server.state().messages.push_back(message);
    assert!(ended(&mut worker).await.success());
    assert_eq!(bench.server.only("agent.message_injected")["message_id"], "msg_1");
    let state = bench.server.state();
    assert_eq!(state.acknowledged, ["msg_1"]);
    let second = state.model_requests[1].to_string();
    assert!(second.contains("use the blue one"), "in the very next request: {second}");
}

#[tokio::test]
async fn told_to_end_it_saves_the_work_and_says_so() {
    let bench = Bench::new(vec![bash("echo half > half.txt; touch ready; sleep 600"), say("done")]).await;
    let mut worker = bench.start();
    let ready = bench.workspace().join("ready");
    until("the command runs", || ready.exists()).await;
    let told = Instant::now();
    terminate(&worker);
    let status = ended(&mut worker).await;
    assert!(told.elapsed() < Duration::from_secs(8), "within the grace: {:?}", told.elapsed());
    assert_eq!(status.code(), Some(1));
    let pushed = bench.pushed().expect("what was done so far is at the origin");
    assert!(git(&bench.workspace(), &["show", "--stat", &pushed]).contains("half.txt"));
    assert_eq!(bench.server.only("agent.completed")["code_pushed"], json!(true));
    assert_eq!(bench.server.only("agent.completed")["success"], json!(false));
    assert_eq!(bench.server.only("agent.failed")["error_class"], "cancelled");
    assert_eq!(bench.server.only("agent.shutdown")["reason"], "terminated");
}

#[tokio::test]
async fn a_superseded_attempt_stops_and_pushes_nothing() {
    let bench = Bench::new(vec![bash("echo new > new.txt; touch ready; sleep 600"), say("done")]).await;
    let mut worker = bench.start();
    let ready = bench.workspace().join("ready");
    until("the command runs", || ready.exists()).await;
    bench.server.state().mood = Mood::Superseded;
    bench
        .server
        .state()
        .messages
        .push_back(json!({"id": "msg_1", "content": "go on", "message_type": "interrupt", "sender": "me"}));
    assert_eq!(ended(&mut worker).await.code(), Some(1));
    assert_eq!(bench.pushed(), None);
    assert!(!bench.server.has("agent.completed"));
}

#[tokio::test]
async fn what_a_killed_worker_could_not_send_its_successor_sends() {
    let bench =
        Bench::new(vec![bash("touch ready; while [ -e ready ]; do sleep 0.1; done"), say("done")]).await;
    bench.server.state().mood = Mood::Unavailable;
    let mut worker = bench.start();
    let ready = bench.workspace().join("ready");
    until("the command runs", || ready.exists()).await;
    worker.kill().await.unwrap();
    let waiting = std::fs::read_to_string(bench.dir.path().join(".sunaba/spool/events.jsonl")).unwrap();
    let waiting: Vec<serde_json::Value> =
        waiting.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(waiting.len() >= 3);
    bench.server.state().mood = Mood::Taking;
    let mut next = bench.start();
    until("the next has sent them", || bench.server.state().events.len() > waiting.len()).await;
    {
        let state = bench.server.state();
        let sent: Vec<_> = state.events.iter().map(|event| &event["event_id"]).take(waiting.len()).collect();
        let expected: Vec<_> = waiting.iter().map(|event| &event["event_id"]).collect();
        assert_eq!(sent, expected, "in order, before anything new");
    }
    terminate(&next);
    ended(&mut next).await;
}

#[tokio::test]
async fn a_killed_worker_leaves_its_conversation() {
    let wait = "touch ready; while [ -e ready ]; do sleep 0.1; done";
    let bench = Bench::new(vec![bash("echo the first turn"), bash(wait), say("done")]).await;
    let mut worker = bench.start();
    let ready = bench.workspace().join("ready");
    until("the second command runs", || ready.exists()).await;
    worker.kill().await.unwrap();
    std::fs::remove_file(ready).unwrap();
    let sessions = bench.dir.path().join(".sunaba/agent/sessions");
    let files: Vec<PathBuf> =
        std::fs::read_dir(sessions).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let lines = std::fs::read_to_string(&files[0]).unwrap();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["session", "user", "assistant", "user", "assistant"]);
    assert_eq!(lines[3]["content"][0]["content"], "the first turn\n");
    assert_eq!(lines[4]["content"][0]["input"]["command"], wait);
}

#[tokio::test]
async fn the_agent_has_the_tools_that_it_is_given() {
    let bench = Bench::new(vec![say("done")]).await;
    let mut worker = bench.command();
    worker.env("ALLOWED_TOOLS", "Read,Bash").env("DISALLOWED_TOOLS", "Bash").env("ENABLE_SUBAGENTS", "true");
    assert!(ended(&mut worker.spawn().unwrap()).await.success());
    let request = bench.server.state().model_requests[0].clone();
    let names: Vec<&str> =
        request["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Read", "Task"]);
}

#[tokio::test]
async fn a_start_that_fails_says_in_which_part() {
    let bench = Bench::new(vec![say("done")]).await;
    std::fs::remove_dir_all(bench.workspace().join(".git")).unwrap();
    assert_eq!(bench.run().await.code(), Some(1));
    let failed = bench.server.only("agent.failed");
    assert_eq!(failed["phase"], "workspace", "{failed}");
    assert!(failed["error"].as_str().unwrap().contains("not a git repository"), "{failed}");
    assert_eq!(bench.server.types().last().map(String::as_str), Some("agent.shutdown"));
}

#[tokio::test]
async fn the_last_words_of_a_run_that_failed_are_sent_together() {
    let bench = Bench::new(vec![bash("echo new > new.txt"), Turn::Refuse]).await;
    assert_eq!(bench.run().await.code(), Some(1));
    let last = bench.server.state().last_batch.clone();
    assert!(
        last.ends_with(&["agent.error", "agent.failed", "agent.shutdown"].map(str::to_owned)),
        "{last:?}"
    );
    assert_eq!(bench.server.only("agent.completed")["code_pushed"], true, "before they are said");
}

#[tokio::test]
async fn a_push_that_fails_is_a_failed_run() {
    let bench =
        Bench::new(vec![bash("echo new > new.txt; git remote set-url origin /nowhere"), say("done")]).await;
    let mut worker = bench.start();
    until("the agent is done", || bench.server.state().model_requests.len() == 2).await;
    terminate(&worker);
    assert_eq!(ended(&mut worker).await.code(), Some(1));
    let completed = bench.server.only("agent.completed");
    assert_eq!(
        (&completed["code_pushed"], &completed["success"]),
        (&json!(false), &json!(false)),
        "{completed}"
    );
    assert!(bench.server.has("agent.failed"));
}
