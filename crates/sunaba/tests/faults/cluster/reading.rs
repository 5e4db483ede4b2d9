//! What the servers show once everything is quiet, read through their public API.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::door::Door;
use super::stream::LAST;
use super::watcher::{Filter, Frame, Leaves, MARKER, MARKER_TYPE, Watcher};

/// How long a reader may need from the beginning to the marker.
pub(super) const CATCH_UP: Duration = Duration::from_secs(120);

/// Writes what ends whoever follows a sandbox's log; its writer is done.
pub(super) async fn end_log(door: &Door, sandbox: &str) -> anyhow::Result<()> {
    let last = json!({ "event_type": LAST });
    door.api(0).post(&format!("/api/v1/sandboxes/{sandbox}/events"), &last).await?;
    Ok(())
}

/// Writes what ends every watch.
pub(super) async fn mark_the_end(door: &Door) -> anyhow::Result<()> {
    let marker = json!({ "event_type": MARKER_TYPE });
    door.api(1).post(&format!("/api/v1/sandboxes/{MARKER}/events"), &marker).await?;
    Ok(())
}

/// Everything that one server publishes up to the marker.
pub(super) async fn feed(door: &Door, node: usize) -> anyhow::Result<Vec<Frame>> {
    let door = door.clone();
    let watcher =
        Watcher { door, filter: Filter::Everything, seed: 0, leaves: Leaves::Never, only: Some(node) };
    let watching = tokio::time::timeout(CATCH_UP, watcher.watch(CancellationToken::new()));
    let (_, seen) =
        watching.await.with_context(|| format!("server {node} does not tell its whole feed"))??;
    Ok(seen.frames)
}

/// The logs of these sandboxes, each read and verified on one server, counted and verified on the other.
pub(super) async fn logs(
    door: &Door,
    sandboxes: impl Iterator<Item = &String>,
) -> anyhow::Result<BTreeMap<String, Vec<Value>>> {
    let mut logs = BTreeMap::new();
    for (index, sandbox) in sandboxes.enumerate() {
        let (reader, other) = (door.api(index % 2), door.api((index + 1) % 2));
        let log = reader.whole_log(sandbox).await?;
        let there = other.get(&format!("/api/v1/sandboxes/{sandbox}/events?limit=1")).await?;
        ensure!(there["total_count"] == log.len(), "{sandbox}: {} events here, {there} there", log.len());
        let verdict = other.get(&format!("/api/v1/sandboxes/{sandbox}/verify")).await?;
        ensure!(verdict["ok"] == true, "{sandbox}: {verdict}");
        logs.insert(sandbox.clone(), log);
    }
    Ok(logs)
}

/// Every message of a sandbox with its fate.
pub(super) async fn history(door: &Door, node: usize, sandbox: &str) -> anyhow::Result<Vec<Value>> {
    let mut messages: Vec<Value> = Vec::new();
    let mut after = 0;
    loop {
        let path = format!("/api/v1/sandboxes/{sandbox}/messages/history?limit=1000&after_seq={after}");
        let page = door.api(node).get(&path).await?;
        messages.extend(page["messages"].as_array().context("messages")?.iter().cloned());
        let Some(next) = page["next_after_seq"].as_i64() else { return Ok(messages) };
        after = next;
    }
}
