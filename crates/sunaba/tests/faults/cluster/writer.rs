//! An outside worker that writes to whichever server answers, and remembers exactly what it was told.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::door::{Ask, Door};

/// The type of its events.
pub(super) const TYPE: &str = "agent.message";

/// An event that got its 200.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) id: String,
    pub(super) seq: i64,
    pub(super) fingerprint: u64,
}

/// What one writer was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) written: Vec<Written>,
    /// How often it had to ask again.
    pub(super) repeats: u64,
}

/// One writer for one sandbox, which its first event registers.
pub(super) struct Writer {
    pub(super) door: Door,
    pub(super) sandbox: String,
    /// Events a request: 1 uses the single route, more the batch route.
    pub(super) batch: usize,
    pub(super) seed: u64,
    /// The longest pause between two requests, in milliseconds.
    pub(super) pause_ms: u64,
}

impl Writer {
    /// Writes until told to stop; then finishes the request it is at.
    pub(super) async fn write(self, stop: CancellationToken) -> anyhow::Result<(String, Told)> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let mut told = Told::default();
        let mut number = 0u64;
        while !stop.is_cancelled() {
            let events: Vec<Value> = (0..self.batch)
                .map(|_| {
                    number += 1;
                    self.event(number, &mut random)
                })
                .collect();
            let (answer, asked) = self.post(&events, &mut random).await?;
            told.repeats += asked - 1;
            told.written.extend(acknowledged(&events, &answer).with_context(|| answer.to_string())?);
            tokio::time::sleep(Duration::from_millis(random.random_range(0..=self.pause_ms))).await;
        }
        Ok((self.sandbox, told))
    }

    fn event(&self, number: u64, random: &mut StdRng) -> Value {
        let content = format!("{} says {number} and {}", self.sandbox, random.random::<u64>());
        let data = json!({ "content": content, "turn": number / 10 });
        json!({ "event_id": uuid::Uuid::now_v7().to_string(), "event_type": TYPE, "event_data": data })
    }

    async fn post(&self, events: &[Value], random: &mut StdRng) -> anyhow::Result<(Value, u64)> {
        let path = format!("/api/v1/sandboxes/{}/events", self.sandbox);
        match events {
            [event] => self.door.insist(Ask::post(&path, event), random).await,
            many => {
                let body = json!({ "events": many });
                self.door.insist(Ask::post(&format!("{path}/batch"), &body), random).await
            }
        }
    }
}

/// What a 200 says about what was sent.
fn acknowledged(events: &[Value], answer: &Value) -> anyhow::Result<Vec<Written>> {
    let results = answer["results"].as_array().cloned().unwrap_or_else(|| vec![answer.clone()]);
    ensure!(results.len() == events.len(), "{} results for {} events", results.len(), events.len());
    let each = events.iter().zip(results).map(|(event, result)| {
        ensure!(result["status"] == "received" && result["event_id"] == event["event_id"], "rejected");
        Ok(Written {
            id: event["event_id"].as_str().context("id")?.to_owned(),
            seq: result["seq"].as_i64().context("seq")?,
            fingerprint: fingerprint(&event["event_data"]),
        })
    });
    each.collect()
}

/// Equal for equal payloads.
pub(super) fn fingerprint(data: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.to_string().hash(&mut hasher);
    hasher.finish()
}
