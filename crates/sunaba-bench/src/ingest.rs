//! How many events a second are acknowledged, each one durable.

use std::time::Instant;

use crate::client::{batch, event};
use crate::server::Server;
use crate::table::{Delays, Table};
use crate::{bare, sqlite};

pub(crate) const CONNECTIONS: u64 = 64;
pub(crate) const SECONDS: f64 = 5.0;

pub(crate) async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let limits = sqlite::own_limits()?;
    let bare = bare::requests_per_second().await?;
    table.row("SQLite itself, single FULL commits", format!("{:.0}/s", limits.single_commits), "the limit");
    let rows = format!("{:.0} rows/s", limits.hundred_rows);
    table.row("SQLite itself, 100-row FULL transactions", rows, "the limit");
    table.row("bare handler that parses the JSON, 64 connections", format!("{bare:.0}/s"), "the limit");

    let server = [Server::start().await?];
    let (single, mut delays) = run(&server, "bench", 1, SECONDS).await?;
    table.row(
        "ingest, one event a request, 64 connections",
        format!("{single:.0} events/s, {}", delays.describe()),
        format!(
            "{:.1} × SQLite's single commits; {:.2} × bare handler",
            single / limits.single_commits,
            single / bare
        ),
    );
    let (batched, mut delays) = run(&server, "bench", 100, SECONDS).await?;
    table.row(
        "ingest, batches of 100, 64 connections",
        format!("{batched:.0} events/s, {}", delays.describe()),
        format!("{:.2} × SQLite's own 100-row transactions (wanted ≥ 0.5)", batched / limits.hundred_rows),
    );
    Ok(())
}

/// Posts requests of `size` events for so long, the connections shared out among the servers: how many events
/// a second were acknowledged, and how long each request took.
pub(crate) async fn run(
    servers: &[Server],
    name: &str,
    size: u64,
    seconds: f64,
) -> anyhow::Result<(f64, Delays)> {
    let mut connections = Vec::new();
    for (_, server) in (0..CONNECTIONS).zip(servers.iter().cycle()) {
        connections.push(server.connect().await?);
    }
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (index, mut connection) in connections.into_iter().enumerate() {
        let base = format!("/api/v1/sandboxes/{name}-{size}-{index}/events");
        tasks.spawn(async move {
            let mut delays = Delays::default();
            let mut count = 0;
            while started.elapsed().as_secs_f64() < seconds {
                let asked = Instant::now();
                if size == 1 {
                    connection.post(&base, event(count)).await?;
                } else {
                    connection.post(&format!("{base}/batch"), batch(count, size)).await?;
                }
                delays.push(asked.elapsed());
                count += size;
            }
            anyhow::Ok((count, delays))
        });
    }
    let mut total = 0;
    let mut delays = Delays::default();
    while let Some(done) = tasks.join_next().await {
        let (count, more) = done??;
        total += count;
        delays.extend(more);
    }
    Ok((total as f64 / started.elapsed().as_secs_f64(), delays))
}
