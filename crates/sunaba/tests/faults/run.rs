//! The main job while the server is killed: the sandbox lives on, the story
//! goes on, nothing is missing, and what was said reaches the model.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::api::Api;
use crate::server::Server;

/// A command that takes a few seconds, then a turn that insists on the message sent meanwhile.
const SCRIPT: &str = r#"
- text: "I will count first."
  tools:
    - shell: "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo tick $i; sleep 0.25; done"
- expect:
    - contains: "please also write b.txt"
    - contains: "tick 12"
  tools:
    - write: { path: a.txt, content: "counted\n" }
    - write: { path: b.txt, content: "asked for\n" }
- text: "Both files are there."
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_survives_kills_of_its_server() -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let repository = repository()?;
    let mut server = Server::start(data.path()).await?;
    let api = Api::new(server.url(), server.token()?);
    let sandbox = start_run(&api, repository.path()).await?;

    wait_for(&api, &sandbox, "agent.tool_output").await?;
    let said = json!({ "content": "please also write b.txt" });
    api.post(&format!("/api/v1/sandboxes/{sandbox}/messages"), &said).await?;
    for _ in 0..2 {
        server.kill_and_restart().await?;
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    let state = wait_for_end(&api, &sandbox).await?;
    let log = api.whole_log(&sandbox).await?;
    ensure!(state == "completed", "the run {state}: {}", tail(&log));

    check_output(&log)?;
    let history = api.get(&format!("/api/v1/sandboxes/{sandbox}/messages/history")).await?;
    ensure!(history.to_string().contains("\"consumed\""), "the message was not consumed: {history}");
    check_branch(&api, &sandbox, repository.path()).await
}

async fn start_run(api: &Api, repository: &Path) -> anyhow::Result<String> {
    let blob = api.post_bytes("/api/v1/blobs", SCRIPT).await?;
    let hash = blob["hash"].as_str().context("hash")?;
    let project = api.post("/api/v1/projects", &json!({ "repo_path": repository })).await?;
    let body = json!({ "project_id": project["id"], "prompt": "Count, then write", "model": format!("script:{hash}") });
    let sandbox = api.post("/api/v1/sandboxes", &body).await?;
    Ok(sandbox["id"].as_str().context("id")?.to_owned())
}

async fn wait_for(api: &Api, sandbox: &str, event_type: &str) -> anyhow::Result<()> {
    for _ in 0..400 {
        let path = format!("/api/v1/sandboxes/{sandbox}/events?limit=1&event_type={event_type}");
        if api.get(&path).await?["total_count"].as_i64().unwrap_or(0) > 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("no {event_type} within 20 s: {}", tail(&api.whole_log(sandbox).await?))
}

async fn wait_for_end(api: &Api, sandbox: &str) -> anyhow::Result<String> {
    for _ in 0..600 {
        let row = api.get(&format!("/api/v1/sandboxes/{sandbox}")).await?;
        let state = row["state"].as_str().context("state")?.to_owned();
        if matches!(state.as_str(), "completed" | "failed" | "cancelled") {
            return Ok(state);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the run did not end within 30 s: {}", tail(&api.whole_log(sandbox).await?))
}

/// The streamed output is whole: every piece begins where the one before ended.
fn check_output(log: &[Value]) -> anyhow::Result<()> {
    let mut output = String::new();
    for event in log.iter().filter(|event| event["event_type"] == "agent.tool_output") {
        let data = &event["event_data"];
        ensure!(
            data["offset"].as_u64() == Some(output.len() as u64),
            "a piece of output is missing: {event}"
        );
        output.push_str(data["chunk"].as_str().context("chunk")?);
    }
    let wanted: String = (1..=12).map(|tick| format!("tick {tick}\n")).collect();
    ensure!(output == wanted, "the output was {output:?}");
    Ok(())
}

async fn check_branch(api: &Api, sandbox: &str, repository: &Path) -> anyhow::Result<()> {
    let row = api.get(&format!("/api/v1/sandboxes/{sandbox}")).await?;
    let branch = row["branch_name"].as_str().context("branch_name")?;
    for (file, content) in [("a.txt", "counted\n"), ("b.txt", "asked for\n")] {
        ensure!(git(repository, &["show", &format!("{branch}:{file}")])? == content, "{file} on {branch}");
    }
    ensure!(git(repository, &["status", "--porcelain"])?.is_empty(), "the work tree was touched");
    ensure!(git(repository, &["branch", "--show-current"])? == "main\n", "the checked-out branch changed");
    Ok(())
}

pub(crate) fn repository() -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    git(directory.path(), &["init", "--quiet", "-b", "main"])?;
    std::fs::write(directory.path().join("README.md"), "# counted\n")?;
    git(directory.path(), &["add", "."])?;
    let who = ["-c", "user.name=test", "-c", "user.email=test@sunaba.invalid"];
    git(directory.path(), &[&who[..], &["commit", "--quiet", "-m", "start"]].concat())?;
    Ok(directory)
}

/// Commits everything.
pub(crate) fn commit(directory: &Path) -> anyhow::Result<()> {
    let who = ["-c", "user.name=test", "-c", "user.email=test@sunaba.invalid"];
    git(directory, &["add", "."])?;
    git(directory, &[&who[..], &["commit", "--quiet", "-m", "more"]].concat())?;
    Ok(())
}

fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").arg("-C").arg(directory).args(arguments).output()?;
    ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn tail(log: &[Value]) -> String {
    let last = log.iter().rev().take(8).rev();
    last.map(|event| format!("\n  {} {}", event["event_type"], event["event_data"])).collect()
}
