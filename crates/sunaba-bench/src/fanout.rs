//! From an event's acknowledgement to its arrival at many subscribers, and
//! what one reader that stalls does to the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::Mutex;

use crate::frames::Frames;
use crate::server::Server;
use crate::table::{Delays, Table};

const EVENTS: usize = 500;
const PER_SECOND: u64 = 50;
/// Makes a tick longer than any other frame, and as long as an ordinary event.
const PADDING: usize = 300;

pub(crate) async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let mut wide = run(1_000, Stalled::None).await?;
    table.row(
        "event to subscriber after its acknowledgement, 1,000 subscribers, 50 events/s",
        wide.describe(),
        "wanted p50 ≤ 5 ms, p99 ≤ 25 ms",
    );
    let mut alone = run(100, Stalled::None).await?;
    let mut beside = run(100, Stalled::One).await?;
    let ratio = beside.quantile_ms(0.99) / alone.quantile_ms(0.99);
    table.row(
        "100 healthy subscribers beside a stalled one",
        beside.describe(),
        format!("without it {}: ratio of p99 {ratio:.2} (wanted ≤ 1.2)", alone.describe()),
    );
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Stalled {
    None,
    One,
}

async fn run(subscribers: usize, stalled: Stalled) -> anyhow::Result<Delays> {
    let server = Server::start().await?;
    let path = format!("/api/v1/ws/events?token={}&event_types=SANDBOX_bench.tick", server.token);
    // A reader that never reads: its socket fills and the server has to cope.
    let _stalled = match stalled {
        Stalled::One => Some(Frames::open(&server.authority, &path).await?),
        Stalled::None => None,
    };
    let acknowledged: Arc<Mutex<Vec<Option<Instant>>>> = Arc::new(Mutex::new(vec![None; EVENTS]));
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..subscribers {
        let mut frames = Frames::open(&server.authority, &path).await?;
        readers.spawn(async move { frames.arrivals(EVENTS, PADDING).await });
    }
    post_ticks(&server, &acknowledged).await?;
    let acknowledged = acknowledged.lock().await.clone();
    let mut delays = Delays::default();
    while let Some(arrived) = readers.join_next().await {
        for (arrived, acknowledged) in arrived??.into_iter().zip(&acknowledged) {
            let acknowledged = acknowledged.context("every tick was acknowledged")?;
            delays.push(arrived.saturating_duration_since(acknowledged));
        }
    }
    Ok(delays)
}

async fn post_ticks(server: &Server, acknowledged: &Mutex<Vec<Option<Instant>>>) -> anyhow::Result<()> {
    let mut connection = server.connect().await?;
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / PER_SECOND));
    for number in 0..EVENTS {
        tick.tick().await;
        let body = serde_json::json!({
            "event_type": "bench.tick",
            "event_data": { "number": number, "padding": "x".repeat(PADDING) },
        });
        connection.post("/api/v1/sandboxes/bench-fanout/events", body.to_string()).await?;
        acknowledged.lock().await[number] = Some(Instant::now());
    }
    Ok(())
}
