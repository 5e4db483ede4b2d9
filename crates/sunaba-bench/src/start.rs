//! How long a server takes to be ready, what it needs when idle, and how long a
//! local sandbox takes from the request to its worker's first event.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;

use crate::docker;
use crate::sandboxes::{post, small_repository, wait_for, wait_for_end};
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
    let container = match docker::run_nothing(SANDBOXES / 2) {
        Ok(mut delays) => format!("`docker run` p50 {:.1} ms", delays.quantile_ms(0.5)),
        Err(error) => format!("`docker run` not measured: {error:#}"),
    };
    let mut started = sandboxes(&server).await?;
    table.row(
        "local sandbox, request to the worker's first event (clone of a small repository included)",
        started.describe(),
        format!(
            "wanted p50 ≤ 100 ms beyond the clone; bare bubblewrap p50 {:.1} ms; {container}",
            bare.quantile_ms(0.5)
        ),
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
