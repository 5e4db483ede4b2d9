//! How many sandboxes live at once on this machine, and what each needs.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::client::Connection;
use crate::sandboxes::{post, small_repository};
use crate::server::Server;
use crate::table::Table;

const SANDBOXES: usize = 200;
/// How long all of them may take to start, and to be gone again.
const PATIENCE: Duration = Duration::from_secs(300);
/// A model that thinks for longer than the measurement.
const SCRIPT: &str = "- delay_ms: 600000\n  text: done\n";

pub(crate) async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let server = Server::start().await?;
    let repository = small_repository()?;
    let mut connection = server.connect().await?;
    let project = post(&mut connection, "/api/v1/projects", &json!({"repo_path": repository.path()})).await?;
    let script = connection.post("/api/v1/blobs", SCRIPT).await?;
    let script: Value = serde_json::from_slice(&script)?;
    let model = format!("script:{}", script["hash"].as_str().context("the script's hash")?);
    let started = Instant::now();
    for number in 0..SANDBOXES {
        let body = json!({"project_id": project["id"], "prompt": format!("wait {number}"), "model": model});
        post(&mut connection, "/api/v1/sandboxes", &body).await?;
    }
    wait_for_running(&mut connection, SANDBOXES).await?;
    let all_after = started.elapsed();
    let memory = memory_of_sandboxes(&server.data_directory())?;
    table.row(
        &format!("{SANDBOXES} local sandboxes alive at once"),
        format!("all running after {:.1} s; {:.1} MiB each (PSS)", all_after.as_secs_f64(), memory),
        format!("the server then has {:.1} MiB resident", server.resident_mib()?),
    );
    let stopped = Instant::now();
    end_all(&mut connection).await?;
    wait_until_gone(&server.data_directory()).await?;
    table.row(
        &format!("{SANDBOXES} local sandboxes ended"),
        format!("gone from the machine after {:.1} s", stopped.elapsed().as_secs_f64()),
        "every process and directory",
    );
    Ok(())
}

async fn list(connection: &mut Connection, state: &str) -> anyhow::Result<Vec<Value>> {
    let page = connection.get(&format!("/api/v1/sandboxes?state={state}&limit=500")).await?;
    let page: Value = serde_json::from_slice(&page)?;
    Ok(page["sandboxes"].as_array().context("a list of sandboxes")?.clone())
}

async fn wait_for_running(connection: &mut Connection, count: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let running = list(connection, "running").await?.len();
        if running >= count {
            return Ok(());
        }
        if let Some(failed) = list(connection, "failed").await?.first() {
            anyhow::bail!("a sandbox failed: {}", failed["reason"]);
        }
        ensure!(Instant::now() < deadline, "only {running} of {count} sandboxes ran within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn end_all(connection: &mut Connection) -> anyhow::Result<()> {
    for sandbox in list(connection, "running").await? {
        let id = sandbox["id"].as_str().context("id")?;
        let (status, body) =
            connection.send(http::Method::DELETE, &format!("/api/v1/sandboxes/{id}"), &[]).await?;
        ensure!(status.is_success(), "{id}: {status} {}", String::from_utf8_lossy(&body));
    }
    Ok(())
}

async fn wait_until_gone(data: &std::path::Path) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !directories(data)?.is_empty() || !processes(data)?.is_empty() {
        ensure!(Instant::now() < deadline, "not every sandbox was gone within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// The sandboxes' directories; what the server keeps for itself beside them has a dot in front.
fn directories(data: &std::path::Path) -> anyhow::Result<Vec<std::ffi::OsString>> {
    let names = std::fs::read_dir(data.join("sandboxes"))?.map(|entry| Ok(entry?.file_name()));
    let names: anyhow::Result<Vec<_>> = names.collect();
    Ok(names?.into_iter().filter(|name| !name.to_string_lossy().starts_with('.')).collect())
}

/// The sandboxes' shims and everything below them.
fn processes(data: &std::path::Path) -> anyhow::Result<HashSet<u32>> {
    let marker = data.join("sandboxes").to_string_lossy().into_owned();
    let mut parents = Vec::new();
    let mut found = HashSet::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may end while it is looked at.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let Some(parent) = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) else {
            continue;
        };
        parents.push((pid, parent.parse::<u32>().unwrap_or_default()));
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&words).contains(&marker) {
            found.insert(pid);
        }
    }
    let mut before = 0;
    while before != found.len() {
        before = found.len();
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| found.contains(parent))
                .map(|(pid, _)| *pid)
                .collect::<Vec<_>>(),
        );
    }
    Ok(found)
}

/// What one sandbox needs on average, its shim included, in MiB.
fn memory_of_sandboxes(data: &std::path::Path) -> anyhow::Result<f64> {
    Ok(memory_mib(data, |_| true)? / SANDBOXES as f64)
}

/// What those processes of all sandboxes need whose command lines count, in MiB; shared pages are counted once.
pub(crate) fn memory_mib(data: &std::path::Path, counts: impl Fn(&[&str]) -> bool) -> anyhow::Result<f64> {
    let mut kib = 0.0;
    for pid in processes(data)? {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if !counts(&line.split('\0').collect::<Vec<_>>()) {
            continue;
        }
        let Ok(rollup) = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { continue };
        let line = rollup.lines().find(|line| line.starts_with("Pss:")).unwrap_or_default();
        kib += line.split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok()).unwrap_or_default();
    }
    Ok(kib / 1024.0)
}
