//! A worker as the contract describes it: it repeats an event under the same
//! id until it gets its 200, and remembers what was acknowledged.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What one writer knows.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    /// Ids that got their 200, in order.
    pub(crate) ids: Vec<String>,
    /// How often a request had to be repeated.
    pub(crate) repeats: u64,
}

/// One writer for one sandbox.
pub(crate) struct Writer {
    pub(crate) client: reqwest::Client,
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) sandbox: String,
    /// Told of every acknowledgement, so that a kill can follow one at once.
    pub(crate) acknowledged: Arc<Notify>,
    /// Events a request: 1 uses the single route, more the batch route.
    pub(crate) batch: usize,
}

impl Writer {
    /// Writes until told to stop; then finishes the request it is at.
    pub(crate) async fn write(self, stop: CancellationToken) -> anyhow::Result<Acknowledged> {
        let mut known = Acknowledged::default();
        let mut number = 0u64;
        while !stop.is_cancelled() {
            let events: Vec<Value> = (0..self.batch)
                .map(|_| {
                    number += 1;
                    json!({
                        "event_id": uuid::Uuid::now_v7().to_string(),
                        "event_type": "agent.message",
                        "event_data": { "turn": number / 10, "content": format!("{} says {number}", self.sandbox) },
                    })
                })
                .collect();
            self.post_until_acknowledged(&events, &mut known).await?;
        }
        Ok(known)
    }

    async fn post_until_acknowledged(
        &self,
        events: &[Value],
        known: &mut Acknowledged,
    ) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while tokio::time::Instant::now() < deadline {
            if self.post(events).await? {
                self.acknowledged.notify_waiters();
                known
                    .ids
                    .extend(events.iter().filter_map(|event| event["event_id"].as_str().map(str::to_owned)));
                return Ok(());
            }
            known.repeats += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::bail!("{} got no acknowledgement within 60 s", self.sandbox)
    }

    /// Whether every event got its 200. A broken connection is not an answer.
    async fn post(&self, events: &[Value]) -> anyhow::Result<bool> {
        let base = format!("{}/api/v1/sandboxes/{}/events", self.url, self.sandbox);
        let (url, body) = match events {
            [event] => (base, event.clone()),
            many => (format!("{base}/batch"), json!({ "events": many })),
        };
        let request = self.client.post(url).bearer_auth(&self.token).json(&body);
        let Ok(answer) = request.timeout(Duration::from_secs(10)).send().await else { return Ok(false) };
        let status = answer.status();
        // An answer that was cut off after its status line acknowledges nothing.
        let Ok(body) = answer.json::<Value>().await else { return Ok(false) };
        if status == 200 {
            if let Some(results) = body["results"].as_array() {
                anyhow::ensure!(
                    results.iter().all(|result| result["status"] == "received"),
                    "rejected: {body}"
                );
            }
            return Ok(true);
        }
        anyhow::ensure!(status == 503, "unexpected answer {status}: {body}");
        Ok(false)
    }
}
