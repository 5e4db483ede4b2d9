//! From a message's acknowledgement to its arrival at the long-polling worker.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::server::{Server, Setup};
use crate::table::{Delays, Table};

pub(crate) const MESSAGES: usize = 300;

/// What the design wants of a hand-over, and of an event on its way to a subscriber.
pub(crate) const WANTED: &str = "wanted p50 ≤ 5 ms, p99 ≤ 25 ms";

pub(crate) async fn measure(table: &mut Table) -> anyhow::Result<()> {
    let server = Setup::default().without_auth().start().await?;
    let mut delays = run(&server, &server, MESSAGES).await?;
    table.row("message to worker after its acknowledgement", delays.describe(), WANTED);
    Ok(())
}

/// Says `count` messages at one server, one after the other, to a worker that asks another (or the same).
pub(crate) async fn run(said_at: &Server, asked_at: &Server, count: usize) -> anyhow::Result<Delays> {
    let mut worker = asked_at.connect().await?;
    worker
        .post(
            "/api/v1/sandboxes/bench-messages/events",
            r#"{"event_type":"agent.started","event_data":{"heartbeat":"continuous"}}"#,
        )
        .await?;
    let (arrived_sender, mut arrived) = tokio::sync::mpsc::channel(count);
    let polling = tokio::spawn(async move {
        let mut acknowledge = String::new();
        let mut taken = 0;
        while taken < count {
            let path = format!("/api/v1/sandboxes/bench-messages/messages?wait=20{acknowledge}");
            let answer: Value = serde_json::from_slice(&worker.get(&path).await?)?;
            let now = Instant::now();
            let messages = answer.as_array().context("a list of messages")?;
            taken += messages.len();
            let ids: Vec<&str> = messages.iter().filter_map(|message| message["id"].as_str()).collect();
            acknowledge = if ids.is_empty() { String::new() } else { format!("&ack={}", ids.join(",")) };
            for message in messages {
                arrived_sender
                    .send((message["content"].as_str().unwrap_or_default().to_owned(), now))
                    .await?;
            }
        }
        anyhow::Ok(())
    });
    let mut sender = said_at.connect().await?;
    let mut delays = Delays::default();
    for number in 0..count {
        let body = serde_json::json!({ "content": number.to_string() }).to_string();
        sender.post("/api/v1/sandboxes/bench-messages/messages", body).await?;
        let acknowledged = Instant::now();
        let next = tokio::time::timeout(Duration::from_secs(20), arrived.recv()).await?;
        let (content, at) = next.context("the worker stopped polling")?;
        anyhow::ensure!(content == number.to_string(), "message {content} arrived in place of {number}");
        delays.push(at.saturating_duration_since(acknowledged));
    }
    polling.await??;
    Ok(delays)
}
