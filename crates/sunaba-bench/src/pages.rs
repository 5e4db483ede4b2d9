//! Pages of a log of a million events: the first and a deep one.

use std::time::Instant;

use anyhow::Context;
use serde_json::Value;

use crate::client::batch;
use crate::server::Server;
use crate::table::{Delays, Table};

const EVENTS: u64 = 1_000_000;
const WRITERS: u64 = 16;
const REQUESTS: usize = 300;
const LOG: &str = "/api/v1/sandboxes/bench-pages";

pub(crate) async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let server = Server::start().await?;
    fill(&server).await?;
    let mut connection = server.connect().await?;
    let page: Value =
        serde_json::from_slice(&connection.get(&format!("{LOG}/trajectory?limit=1000")).await?)?;
    let near = page["next_cursor"].as_str().context("next_cursor")?.to_owned();
    let deep: Value =
        serde_json::from_slice(&connection.get(&format!("{LOG}/events?limit=1&before_seq=1000")).await?)?;
    let deep = deep["events"][0]["id"].as_str().context("a deep event")?.to_owned();
    let pages = [
        ("events, first page of 100", format!("{LOG}/events")),
        ("events, deep page (before_seq)", format!("{LOG}/events?before_seq=500000")),
        ("events, deep page (offset)", format!("{LOG}/events?offset=900000")),
        ("events, one type, deep", format!("{LOG}/events?event_type=agent.tool_completed&before_seq=500000")),
        ("trajectory, first page of 100", format!("{LOG}/trajectory")),
        ("trajectory, second thousand", format!("{LOG}/trajectory?cursor={near}")),
        ("trajectory, deep page", format!("{LOG}/trajectory?cursor={deep}")),
    ];
    for (what, path) in pages {
        let mut delays = Delays::default();
        for _ in 0..REQUESTS {
            let asked = Instant::now();
            connection.get(&path).await?;
            delays.push(asked.elapsed());
        }
        table.row(&format!("1,000,000 events: {what}"), delays.describe(), "wanted p99 ≤ 10 ms");
    }
    Ok(())
}

async fn fill(server: &Server) -> anyhow::Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let mut connection = server.connect().await?;
        tasks.spawn(async move {
            let share = EVENTS / WRITERS;
            for first in (0..share).step_by(500) {
                let body = batch(writer * share + first, 500.min(share - first));
                connection.post(&format!("{LOG}/events/batch"), body).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
