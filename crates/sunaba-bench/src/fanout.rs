//! From an event's acknowledgement to its arrival at many subscribers, and
//! what one reader that stalls does to the others.

use std::time::{Duration, Instant};

use crate::bare::PlainFanout;
use crate::frames::Frames;
use crate::messages::WANTED;
use crate::server::Server;
use crate::table::{Delays, Table};

pub(crate) const EVENTS: usize = 500;
const PER_SECOND: u64 = 50;
/// How often the runs with and without a stalled reader are repeated.
const ROUNDS: usize = 3;
/// Makes a tick longer than any other frame, and as long as an ordinary event.
const PADDING: usize = 300;

pub(crate) async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let mut plain = plain_sockets(1_000, EVENTS).await?;
    let mut wide = healthy(1_000).await?;
    table.row(
        "event to subscriber after its acknowledgement, 1,000 subscribers, 50 events/s",
        wide.describe(),
        format!(
            "{WANTED}; plain sockets take {}: {:.1} × their p50",
            plain.describe(),
            wide.quantile_ms(0.5) / plain.quantile_ms(0.5)
        ),
    );
    // In turns, so that what else the machine does meets both alike.
    let (mut alone, mut beside) = (Delays::default(), Delays::default());
    for _ in 0..ROUNDS {
        alone.extend(healthy(100).await?);
        beside.extend(beside_a_stalled_one(100).await?);
    }
    let ratio = beside.quantile_ms(0.99) / alone.quantile_ms(0.99);
    table.row(
        "100 healthy subscribers beside a stalled one",
        beside.describe(),
        format!("without it {}: ratio of p99 {ratio:.2} (wanted ≤ 1.2)", alone.describe()),
    );
    Ok(())
}

async fn healthy(subscribers: usize) -> anyhow::Result<Delays> {
    let server = Server::start().await?;
    run(&server, &server, subscribers, EVENTS).await
}

async fn beside_a_stalled_one(subscribers: usize) -> anyhow::Result<Delays> {
    let server = Server::start().await?;
    let _stalled = stall(&server, &path(&server)).await?;
    run(&server, &server, subscribers, EVENTS).await
}

fn path(server: &Server) -> String {
    format!("/api/v1/ws/events?token={}&event_types=SANDBOX_bench.tick", server.token)
}

/// Posts events at one server to subscribers of another (or the same).
pub(crate) async fn run(
    posted_at: &Server,
    read_at: &Server,
    subscribers: usize,
    events: usize,
) -> anyhow::Result<Delays> {
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..subscribers {
        let mut frames = Frames::open(&read_at.authority, &path(read_at)).await?;
        readers.spawn(async move { frames.arrivals(events, PADDING).await });
    }
    let acknowledged = post_ticks(posted_at, events).await?;
    let mut delays = Delays::default();
    while let Some(arrived) = readers.join_next().await {
        for (arrived, acknowledged) in arrived??.into_iter().zip(&acknowledged) {
            delays.push(arrived.saturating_duration_since(*acknowledged));
        }
    }
    Ok(delays)
}

/// A reader that never reads, with more sent to it than its socket holds: the server's next send to it blocks.
async fn stall(server: &Server, path: &str) -> anyhow::Result<Frames> {
    let frames = Frames::open(&server.authority, &format!("{path},SANDBOX_bench.filler")).await?;
    let mut connection = server.connect().await?;
    let body =
        serde_json::json!({ "event_type": "bench.filler", "event_data": { "filler": "x".repeat(500_000) } });
    for _ in 0..40 {
        connection.post("/api/v1/sandboxes/bench-fanout/events", body.to_string()).await?;
    }
    Ok(frames)
}

/// The same readers on sockets with nothing behind them: what this machine takes for the bytes alone.
pub(crate) async fn plain_sockets(subscribers: usize, events: usize) -> anyhow::Result<Delays> {
    let fanout = PlainFanout::start(500).await?;
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..subscribers {
        let mut frames = Frames::open(&fanout.authority, "/").await?;
        readers.spawn(async move { frames.arrivals(events, PADDING).await });
    }
    let mut clock = tokio::time::interval(Duration::from_micros(1_000_000 / PER_SECOND));
    let mut sent = Vec::with_capacity(events);
    for _ in 0..events {
        clock.tick().await;
        sent.push(fanout.tick());
    }
    let mut delays = Delays::default();
    while let Some(arrived) = readers.join_next().await {
        for (arrived, sent) in arrived??.into_iter().zip(&sent) {
            delays.push(arrived.saturating_duration_since(*sent));
        }
    }
    Ok(delays)
}

/// Posts the events at their pace and says when each was acknowledged.
async fn post_ticks(server: &Server, events: usize) -> anyhow::Result<Vec<Instant>> {
    let mut connection = server.connect().await?;
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / PER_SECOND));
    let mut acknowledged = Vec::with_capacity(events);
    for number in 0..events {
        tick.tick().await;
        let body = serde_json::json!({
            "event_type": "bench.tick",
            "event_data": { "number": number, "padding": "x".repeat(PADDING) },
        });
        connection.post("/api/v1/sandboxes/bench-fanout/events", body.to_string()).await?;
        acknowledged.push(Instant::now());
    }
    Ok(acknowledged)
}
