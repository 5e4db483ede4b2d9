//! Many clients on one thread, each with a connection of its own that posts events for a while.
//!
//! They have their thread to themselves: clients that wake each other across threads take more of a machine that they
//! share with the server.

use std::time::Instant;

use anyhow::Context;

use crate::client::{Connection, push_batch, push_event};
use crate::table::Delays;

/// What one client does.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) authority: String,
    pub(crate) token: String,
    pub(crate) path: String,
    /// How many events a request has; none: one event as it is, without a list around it.
    pub(crate) batch: Option<u64>,
}

/// Has all of them post one request after the other for so long: how many events a second were acknowledged, and how
/// long each request took.
pub(crate) async fn run(clients: Vec<Client>, seconds: f64) -> anyhow::Result<(f64, Delays)> {
    tokio::task::spawn_blocking(move || {
        let thread = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread.block_on(all(clients, seconds))
    })
    .await?
}

async fn all(clients: Vec<Client>, seconds: f64) -> anyhow::Result<(f64, Delays)> {
    let mut connected = Vec::new();
    for client in clients {
        connected.push((Connection::open(&client.authority, &client.token).await?, client));
    }
    let mut tasks = tokio::task::JoinSet::new();
    let started = Instant::now();
    for (connection, client) in connected {
        tasks.spawn(post(connection, client, started, seconds));
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

async fn post(
    mut connection: Connection,
    client: Client,
    started: Instant,
    seconds: f64,
) -> anyhow::Result<(u64, Delays)> {
    let mut delays = Delays::default();
    let (mut count, mut body) = (0, String::new());
    while started.elapsed().as_secs_f64() < seconds {
        let asked = Instant::now();
        body.clear();
        match client.batch {
            None => push_event(&mut body, count),
            Some(size) => push_batch(&mut body, count, size),
        }
        connection.post(&client.path, &body).await.context("a client of many")?;
        delays.push(asked.elapsed());
        count += client.batch.unwrap_or(1);
    }
    Ok((count, delays))
}
