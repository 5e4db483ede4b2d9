//! How long a server takes to be ready, what it needs when idle, and how long a
//! local sandbox takes from the request to its worker's first event.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::client::Connection;
use crate::server::Server;
use crate::table::{Delays, Table};

const SANDBOXES: usize = 20;

pub(crate) async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let mut ready = Delays::default();
    for _ in 0..5 {
        ready.push(Server::start().await?.ready_after);
    }
    table.row(
        "server ready, new data directory",
        format!("p50 {:.0} ms", ready.quantile_ms(0.5)),
        "wanted ≤ 300 ms",
    );
    let server = Server::start().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    table.row("server idle, resident", format!("{:.1} MiB", server.resident_mib()?), "wanted ≤ 40 MiB");

    let mut bare = bare_bubblewrap()?;
    let mut started = sandboxes(&server).await?;
    table.row(
        "local sandbox, request to the worker's first event (clone of a small repository included)",
        started.describe(),
        format!("wanted p50 ≤ 100 ms; bare bubblewrap p50 {:.1} ms", bare.quantile_ms(0.5)),
    );
    Ok(())
}

/// What bubblewrap alone takes to run nothing.
fn bare_bubblewrap() -> anyhow::Result<Delays> {
    let mut delays = Delays::default();
    for _ in 0..SANDBOXES {
        let started = Instant::now();
        let status = Command::new("bwrap")
            .args(["--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib"])
            .args(["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "/usr/bin/true"])
            .stdin(Stdio::null())
            .status()
            .context("cannot run bwrap")?;
        ensure!(status.success(), "bwrap: {status}");
        delays.push(started.elapsed());
    }
    Ok(delays)
}

async fn sandboxes(server: &Server) -> anyhow::Result<Delays> {
    let repository = small_repository()?;
    let mut connection = server.connect().await?;
    let project =
        post(&mut connection, "/api/v1/projects", &json!({ "repo_path": repository.path() })).await?;
    let mut delays = Delays::default();
    for number in 0..SANDBOXES {
        let asked = Instant::now();
        let body = json!({ "project_id": project["id"], "prompt": format!("bench {number}"), "model": "script:default" });
        let sandbox = post(&mut connection, "/api/v1/sandboxes", &body).await?;
        let id = sandbox["id"].as_str().context("id")?.to_owned();
        let first = wait_for(&mut connection, &id, "agent.started").await?;
        delays.push(first.saturating_duration_since(asked));
        wait_for_end(&mut connection, &id).await?;
    }
    Ok(delays)
}

async fn post(connection: &mut Connection, path: &str, body: &Value) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(&connection.post(path, body.to_string()).await?)?)
}

async fn wait_for(connection: &mut Connection, id: &str, event_type: &str) -> anyhow::Result<Instant> {
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

async fn wait_for_end(connection: &mut Connection, id: &str) -> anyhow::Result<()> {
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

fn small_repository() -> anyhow::Result<tempfile::TempDir> {
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
