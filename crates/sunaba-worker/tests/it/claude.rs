//! Claude Code where it belongs: in a sandbox, driven by the worker, with nothing but the bridge to talk to.

use std::path::{Path, PathBuf};

use serde_json::json;
use sunaba_sandbox::{CreateRequest, Provider as _};
use sunaba_types::SandboxId;
use sunaba_types::shim::{Bind, DOOR_SOCKET};
use tokio::time::timeout;

use crate::server::{Server, Turn};
use crate::support::{Host, PATIENCE, until};
use crate::work::{BRANCH, clone_into, git};
use crate::work_in_sandbox::{own_everything, request};

const INSIDE: &str = "/opt/claude";

/// The directory of the CLI that `scripts/setup test` installs.
fn installed() -> PathBuf {
    let machine = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "x64",
    };
    let place = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/tools/agents/claude-code-2.1.197/node_modules/@anthropic-ai")
        .join(format!("claude-code-linux-{machine}"));
    assert!(place.join("claude").is_file(), "{} is missing: scripts/setup test installs it", place.display());
    place.canonicalize().unwrap()
}

/// A sandbox whose worker has been told to use Claude Code.
struct Stage {
    host: Host,
    id: SandboxId,
    workspace: PathBuf,
    origin: PathBuf,
}

impl Stage {
    async fn start(server: &Server, claude: Option<PathBuf>) -> Self {
        let host = Host::new().await;
        let id = SandboxId::generate();
        let prepared = host.provider.create(&id, &CreateRequest::default()).await.unwrap().here().unwrap();
        let origin = host.dir.path().join("origin.git");
        git(host.dir.path(), &["init", "--quiet", "--bare", origin.to_str().unwrap()]);
        clone_into(&prepared.workspace, Path::new("/origin.git"));
        own_everything(&prepared.workspace, prepared.owner_uid);
        own_everything(&origin, prepared.owner_uid);
        server.listen_at(&prepared.door_dir.join(DOOR_SOCKET));
        let mut request = request(&origin);
        request.env.insert("SANDBOX_RUNTIME".to_owned(), "claude".to_owned());
        request.env.insert("PATH".to_owned(), format!("{INSIDE}:/usr/bin:/bin"));
        request.binds.extend(claude.map(|place| Bind {
            source: place.to_str().unwrap().to_owned(),
            target: INSIDE.to_owned(),
            writable: false,
        }));
        host.provider.start(&id, request).await.unwrap();
        Self { host, id, workspace: prepared.workspace, origin }
    }

    /// Waits for the end; the exit code, and what the worker printed.
    async fn end(&self) -> (Option<i32>, String) {
        let exit = timeout(PATIENCE, self.host.provider.wait(&self.id)).await.unwrap().unwrap();
        let output = self.host.provider.output(&self.id, 0, 1 << 16).await.unwrap();
        self.host.provider.delete(&self.id).await.unwrap();
        (exit.code, String::from_utf8_lossy(&output).into_owned())
    }
}

#[tokio::test]
async fn claude_code_works_hears_and_its_work_is_pushed() {
    let server = Server::new(vec![
        Turn::Bash(
            "echo new > new.txt; touch ready; until [ -e go ]; do sleep 0.05; done; rm ready go".to_owned(),
        ),
        Turn::Say("done".to_owned()),
    ]);
    let stage = Stage::start(&server, Some(installed())).await;
    until("the command runs", || stage.workspace.join("ready").exists()).await;
    let message =
        json!({"id": "message_1", "content": "turn left", "message_type": "user_message", "sender": "ada"});
    server.state().messages.push_back(message);
    until("the message is handed over", || server.state().acknowledged.contains(&"message_1".to_owned()))
        .await;
    std::fs::write(stage.workspace.join("go"), "").unwrap();
    let (code, output) = stage.end().await;
    assert_eq!(code, Some(0), "{output}");

    let started = server.only("agent.started");
    assert_eq!((&started["runtime"], &started["sdk"]), (&json!("claude"), &json!("claude-code")));
    assert_eq!(server.only("agent.message_injected")["message_id"], "message_1");
    let requests = server.state().model_requests.clone();
    assert_eq!(requests.len(), 2);
    assert!(
        requests[1]["messages"].to_string().contains("turn left"),
        "in the first request after its hand-over"
    );
    let completed = server.only("agent.completed");
    for (field, expected) in [
        ("success", json!(true)),
        ("turns", json!(2)),
        ("changed_files", json!(["new.txt"])),
        ("code_pushed", json!(true)),
        ("final_output", json!("done")),
        ("output_tokens", json!(10)),
    ] {
        assert_eq!(completed[field], expected, "{field}: {completed}");
    }
    assert!(stage.origin.join("refs/heads").join(BRANCH).exists());
    assert_eq!(server.state().without_token, 0, "every request shows the token");
}

#[tokio::test]
async fn without_the_cli_the_run_fails_and_says_how_to_install_it() {
    let server = Server::new(vec![Turn::Say("done".to_owned())]);
    let stage = Stage::start(&server, None).await;
    let (code, output) = stage.end().await;
    assert_eq!(code, Some(1), "{output}");
    let failed = server.only("agent.failed");
    assert_eq!(failed["error_class"], "configuration");
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("npm install -g @anthropic-ai/claude-code@"), "{error}");
    assert_eq!(server.state().model_requests.len(), 0);
}
