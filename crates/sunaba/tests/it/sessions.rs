//! Conversations that go on: in the same sandbox, in the next one, and after a kill.

use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::{Ran, Server, git, http, repository, sunaba, until};

const TWO_PARTS: &str = "
- tools:
    - write: {path: a.txt, content: \"a\\n\"}
- text: The first part is done.
- expect:
    - request_contains: The first part is done.
    - request_contains: now b.txt
  tools:
    - write: {path: b.txt, content: \"b\\n\"}
- text: Both are done.
";

/// The first attempt hangs in its second turn; whoever goes on with the conversation is in the third.
const HANGS: &str = "
- tools:
    - shell: echo hello; echo half > half.txt
- tools:
    - shell: sleep 600
- expect:
    - request_contains: hello
    - request_contains: Your sandbox ended
    - request_contains: The files are as they were at the last look at them
  tools:
    - write: {path: a.txt, content: \"a\\n\"}
- text: Done.
";

struct World {
    server: Server,
    repo: PathBuf,
    script: PathBuf,
}

impl World {
    fn new(script: &str, follow_up_minutes: &str) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut command = sunaba(data.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.env("FOLLOW_UP_MINUTES", follow_up_minutes);
        let server = Server::of(command, data);
        let repo = repository(server.data.path());
        let path = server.data.path().join("script.yaml");
        std::fs::write(&path, script).unwrap();
        Self { server, repo, script: path }
    }

    /// Starts a run; its sandbox.
    fn run(&self) -> String {
        let mut run = sunaba(self.server.data.path());
        run.args(["run", "--detach", "--egress", "none", "--repo"]).arg(&self.repo);
        let ran =
            Ran::of(run.args(["--model", &format!("script:{}", self.script.display()), "Do both parts"]));
        ran.expect_code(0).stdout.trim().to_owned()
    }

    fn show(&self, id: &str) -> Value {
        self.server.json(&["show", id])
    }

    fn sandboxes(&self) -> usize {
        self.server.json(&["ps", "--all"]).as_array().unwrap().len()
    }

    /// Waits until the task of a sandbox is there.
    fn until_task(&self, id: &str, status: &str) -> Value {
        let mut last = Value::Null;
        until(&format!("{status} task of {id}"), || {
            last = self.show(id);
            last["task"]["status"] == status
        });
        last
    }

    fn file(&self, branch: &Value, path: &str) -> String {
        git(&self.repo, &["show", &format!("{}:{path}", branch.as_str().unwrap())])
    }

    /// What the events of a type say, oldest first.
    async fn told(&self, id: &str, event_type: &str) -> Vec<Value> {
        let page = self.get(&format!("/api/v1/sandboxes/{id}/events?event_type={event_type}")).await;
        page["events"].as_array().unwrap().iter().rev().map(|event| event["event_data"].clone()).collect()
    }

    async fn get(&self, path: &str) -> Value {
        let request = http().get(format!("{}{path}", self.server.url)).bearer_auth(self.server.token());
        request.send().await.unwrap().json().await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_time_goes_on_in_the_same_sandbox() {
    let world = World::new(TWO_PARTS, "10");
    let id = world.run();
    let first = world.until_task(&id, "completed");
    let branch = &first["sandbox"]["branch_name"];
    assert_eq!(first["sandbox"]["state"], "completing", "it waits for a follow-up");
    assert_eq!(world.file(branch, "a.txt"), "a\n", "the result is there already");
    let sent = world.server.json(&["send", &id, "now b.txt"]);
    assert_eq!((&sent["effect"], &sent["sandbox_id"]), (&json!("follow_up"), &json!(id)));
    until("the second result", || {
        let shown = world.show(&id);
        shown["task"]["status"] == "completed"
            && shown["sandbox"]["head_commit"] != first["sandbox"]["head_commit"]
    });
    assert_eq!(world.file(branch, "b.txt"), "b\n");
    assert_eq!(world.sandboxes(), 1);
    let started = world.told(&id, "agent.started").await;
    assert_eq!((&started[0]["is_resuming"], &started[1]["is_resuming"]), (&json!(false), &json!(true)));
    let completed = world.told(&id, "agent.completed").await;
    assert_eq!(completed[0]["session_id"], completed[1]["session_id"]);
    assert_eq!(started[1]["resumed_session_id"], completed[0]["session_id"]);
    let history = world.get(&format!("/api/v1/sandboxes/{id}/messages/history")).await;
    assert_eq!(history["messages"][0]["state"], "consumed", "{history}");
    world.server.run(&["stop", &id]).expect_code(0);
    assert_eq!(world.show(&id)["sandbox"]["state"], "completed");
    assert_eq!(world.show(&id)["task"]["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_after_the_end_goes_on_in_a_new_attempt() {
    let world = World::new(TWO_PARTS, "0");
    let id = world.run();
    let first = world.until_task(&id, "completed");
    until("the end of the first", || world.show(&id)["sandbox"]["state"] == "completed");
    let transcripts = world.get(&format!("/api/v1/sandboxes/{id}/transcripts")).await;
    let session = transcripts["transcripts"][0]["session_id"].clone();
    assert!(session.is_string(), "{transcripts}");
    let sent = world.server.json(&["send", &id, "now b.txt"]);
    assert_eq!(sent["effect"], "new_attempt", "{sent}");
    let next = sent["sandbox_id"].as_str().unwrap();
    assert_ne!(next, id);
    let second = world.until_task(next, "completed");
    assert_eq!(second["sandbox"]["branch_name"], first["sandbox"]["branch_name"]);
    assert_eq!(second["task"]["attempt"], 2);
    let branch = &second["sandbox"]["branch_name"];
    assert_eq!(
        (world.file(branch, "a.txt"), world.file(branch, "b.txt")),
        ("a\n".to_owned(), "b\n".to_owned())
    );
    let started = world.told(next, "agent.started").await;
    assert_eq!((&started[0]["is_resuming"], &started[0]["resumed_session_id"]), (&json!(true), &session));
    let history = world.get(&format!("/api/v1/sandboxes/{next}/messages/history")).await;
    assert_eq!(history["messages"][0]["state"], "consumed", "{history}");
    assert_eq!(history["messages"].as_array().unwrap().len(), 1, "it was told once: {history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_kill_the_next_attempt_goes_on_with_the_conversation() {
    let world = World::new(HANGS, "0");
    let id = world.run();
    until("the second turn", || {
        let raw = std::fs::read_dir(world.server.data.path().join("blobs"));
        raw.is_ok() && tokio::task::block_in_place(|| hung(&world, &id))
    });
    let files = format!("/api/v1/sandboxes/{id}/files?path=half.txt");
    until("its step", || {
        let shown =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(world.get(&files)));
        shown["content"] == "half\n"
    });
    let worker = worker_of(world.server.data.path(), &id).expect("a worker");
    kill(Pid::from_raw(worker), Signal::SIGKILL).unwrap();
    until("another attempt", || world.sandboxes() == 2);
    let task = world.show(&id)["task"].clone();
    let next = task["sandbox_id"].as_str().unwrap();
    assert_ne!(next, id);
    let second = world.until_task(next, "completed");
    let first = world.show(&id);
    assert_eq!(first["sandbox"]["state"], "failed");
    assert_eq!(second["sandbox"]["branch_name"], first["sandbox"]["branch_name"]);
    assert_eq!(world.file(&second["sandbox"]["branch_name"], "a.txt"), "a\n");
    let half = world.file(&second["sandbox"]["branch_name"], "half.txt");
    assert_eq!(half, "half\n", "what was never pushed is not lost");
    let started = world.told(next, "agent.started").await;
    assert_eq!(started[0]["is_resuming"], true, "{}", started[0]);
}

/// Whether the server has the conversation up to the command that hangs.
fn hung(world: &World, id: &str) -> bool {
    let path = format!("/api/v1/sandboxes/{id}/transcripts");
    let listed = tokio::runtime::Handle::current().block_on(world.get(&path));
    listed["transcripts"][0]["turns"].as_i64() >= Some(2)
}

/// The process of a sandbox's worker.
fn worker_of(data: &Path, id: &str) -> Option<i32> {
    let spec = std::fs::read_to_string(data.join("sandboxes").join(id).join("spec.json")).ok()?;
    let token = &spec[spec.find("sun_sandbox_")?..];
    let token: String = token.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).find(|pid| {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        line.trim_end().ends_with("sunaba-worker work")
            && !line.contains(" guest ")
            && String::from_utf8_lossy(&read("environ")).contains(&token)
    })
}
