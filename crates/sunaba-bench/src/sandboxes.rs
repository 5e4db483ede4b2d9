//! What the parts that run sandboxes share: asking for one and waiting for what it says.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::Value;

use crate::client::Connection;

/// Posts JSON and reads JSON.
pub(crate) async fn post(connection: &mut Connection, path: &str, body: &Value) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(&connection.post(path, body.to_string()).await?)?)
}

/// When an event of this type was first seen.
pub(crate) async fn wait_for(
    connection: &mut Connection,
    id: &str,
    event_type: &str,
) -> anyhow::Result<Instant> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        let page =
            connection.get(&format!("/api/v1/sandboxes/{id}/events?limit=1&event_type={event_type}")).await?;
        let page: Value = serde_json::from_slice(&page)?;
        if page["total_count"].as_i64().unwrap_or(0) > 0 {
            return Ok(Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    anyhow::bail!("{id}: no {event_type} within 20 s")
}

/// Waits until the sandbox is completed.
pub(crate) async fn wait_for_end(connection: &mut Connection, id: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        let sandbox: Value =
            serde_json::from_slice(&connection.get(&format!("/api/v1/sandboxes/{id}")).await?)?;
        match sandbox["state"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => anyhow::bail!("{sandbox}"),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    anyhow::bail!("{id} did not end within 30 s")
}

/// A repository with one file.
pub(crate) fn small_repository() -> anyhow::Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join("README.md"), "# bench\n")?;
    for arguments in [
        &["init", "--quiet", "-b", "main"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@sunaba.invalid",
            "commit",
            "--quiet",
            "-m",
            "start",
        ],
    ] {
        let status = Command::new("git").arg("-C").arg(directory.path()).args(arguments).status()?;
        ensure!(status.success(), "git {arguments:?}: {status}");
    }
    Ok(directory)
}
