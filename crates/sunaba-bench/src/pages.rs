//! Pages of a long log: the first and deep ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context;
use serde_json::Value;

use crate::client::{Connection, batch};
use crate::server::Server;
use crate::table::{Delays, Table, grouped};

pub(crate) const EVENTS: u64 = 1_000_000;
const WRITERS: u64 = 16;
/// How many events a request brings while a log is filled.
pub(crate) const FILL_BATCH: u64 = 500;
const REQUESTS: usize = 300;
pub(crate) const WANTED: &str = "wanted p99 ≤ 10 ms";

pub(crate) async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let server = [Server::start().await?];
    fill(&server, 0..EVENTS / FILL_BATCH, |_| "bench-pages".to_owned()).await?;
    for (what, mut delays) in read(&server[0], "bench-pages", EVENTS).await? {
        table.row(&format!("{} events: {what}", grouped(EVENTS)), delays.describe(), WANTED);
    }
    Ok(())
}

/// Reads the pages of a log of so many events again and again.
pub(crate) async fn read(
    server: &Server,
    log: &str,
    events: u64,
) -> anyhow::Result<Vec<(&'static str, Delays)>> {
    let mut connection = server.connect().await?;
    let mut measured = Vec::new();
    for (what, path) in paths(&mut connection, &format!("/api/v1/sandboxes/{log}"), events).await? {
        measured.push((what, repeat(&mut connection, &path).await?));
    }
    Ok(measured)
}

/// Reads only the newest page of a log and one from its middle.
pub(crate) async fn read_two(server: &Server, log: &str, events: u64) -> anyhow::Result<[Delays; 2]> {
    let mut connection = server.connect().await?;
    let base = format!("/api/v1/sandboxes/{log}/events");
    let first = repeat(&mut connection, &base).await?;
    let deep = repeat(&mut connection, &format!("{base}?before_seq={}", events / 2)).await?;
    Ok([first, deep])
}

async fn repeat(connection: &mut Connection, path: &str) -> anyhow::Result<Delays> {
    let mut delays = Delays::default();
    for _ in 0..REQUESTS {
        let asked = Instant::now();
        connection.get(path).await?;
        delays.push(asked.elapsed());
    }
    Ok(delays)
}

async fn paths(
    connection: &mut Connection,
    log: &str,
    events: u64,
) -> anyhow::Result<[(&'static str, String); 7]> {
    let page: Value =
        serde_json::from_slice(&connection.get(&format!("{log}/trajectory?limit=1000")).await?)?;
    let near = page["next_cursor"].as_str().context("next_cursor")?.to_owned();
    let deep: Value =
        serde_json::from_slice(&connection.get(&format!("{log}/events?limit=1&before_seq=1000")).await?)?;
    let deep = deep["events"][0]["id"].as_str().context("a deep event")?.to_owned();
    let (middle, far) = (events / 2, events / 10 * 9);
    Ok([
        ("events, first page of 100", format!("{log}/events")),
        (DEEP, format!("{log}/events?before_seq={middle}")),
        ("events, deep page (offset)", format!("{log}/events?offset={far}")),
        (
            "events, one type, deep",
            format!("{log}/events?event_type=agent.tool_completed&before_seq={middle}"),
        ),
        ("trajectory, first page of 100", format!("{log}/trajectory")),
        ("trajectory, second thousand", format!("{log}/trajectory?cursor={near}")),
        ("trajectory, deep page", format!("{log}/trajectory?cursor={deep}")),
    ])
}

/// The page that is read beside the database's own.
pub(crate) const DEEP: &str = "events, deep page (before_seq)";

/// Writes batches of [`FILL_BATCH`] events, each to the log that `log_of` says, from several connections.
pub(crate) async fn fill(
    servers: &[Server],
    batches: std::ops::Range<u64>,
    log_of: fn(u64) -> String,
) -> anyhow::Result<()> {
    let next = Arc::new(AtomicU64::new(batches.start));
    let mut tasks = tokio::task::JoinSet::new();
    for (_, server) in (0..WRITERS).zip(servers.iter().cycle()) {
        let mut connection = server.connect().await?;
        let (next, end) = (Arc::clone(&next), batches.end);
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return anyhow::Ok(());
                }
                let body = batch(number * FILL_BATCH, FILL_BATCH);
                connection.post(&format!("/api/v1/sandboxes/{}/events/batch", log_of(number)), body).await?;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
