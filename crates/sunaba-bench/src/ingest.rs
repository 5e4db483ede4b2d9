//! How many events a second are acknowledged, each one durable.

use crate::crowd::Client;
use crate::server::Server;
use crate::table::{Delays, Table};
use crate::{bare, crowd, sqlite};

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
    let client = |(index, server): (u64, &Server)| {
        let events = format!("/api/v1/sandboxes/{name}-{size}-{index}/events");
        let (path, batch) = if size == 1 { (events, None) } else { (format!("{events}/batch"), Some(size)) };
        Client { authority: server.authority.clone(), token: server.token.clone(), path, batch }
    };
    crowd::run((0..CONNECTIONS).zip(servers.iter().cycle()).map(client).collect(), seconds).await
}
