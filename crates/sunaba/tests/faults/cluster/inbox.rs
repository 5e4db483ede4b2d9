//! Messages and the workers that take them: outside sandboxes with a token of their own, on either server.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::checker;
use super::door::{Ask, Door};

/// One message in so many is an interrupt.
const INTERRUPTS: u32 = 10;
/// One poll in so many comes late, so that several messages wait for it.
const DOZES: u32 = 2;

/// A sandbox whose worker takes messages.
#[derive(Clone)]
pub(super) struct Inbox {
    pub(super) sandbox: String,
    token: String,
    /// What its worker was given and told the server so.
    taken: Arc<Mutex<BTreeSet<String>>>,
    /// How many polls gave an interrupt and something that was there before it.
    overtaken: Arc<AtomicU64>,
}

/// A message that got its 200.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) sandbox: String,
    pub(super) id: String,
}

impl Inbox {
    /// Registers a sandbox and gets its token.
    pub(super) async fn open(door: &Door, sandbox: String) -> anyhow::Result<Self> {
        let api = door.api(0);
        let started = json!({ "event_type": "agent.started" });
        api.post(&format!("/api/v1/sandboxes/{sandbox}/events"), &started).await?;
        let wish = json!({ "name": sandbox, "kind": "sandbox", "sandbox_id": sandbox });
        let made = api.post("/api/v1/tokens", &wish).await?;
        let token = made["token"].as_str().context("token")?.to_owned();
        Ok(Self { sandbox, token, taken: Arc::default(), overtaken: Arc::default() })
    }

    pub(super) fn taken(&self) -> BTreeSet<String> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often an interrupt came before something older.
    pub(super) fn overtaken(&self) -> u64 {
        self.overtaken.load(Ordering::Relaxed)
    }

    /// What a worker says that begins anew: everything it was not seen to take is offered again.
    pub(super) async fn begin_anew(&self, door: &Door, random: &mut StdRng) -> anyhow::Result<()> {
        self.say(door, random, "agent.started", json!({})).await
    }

    async fn say(&self, door: &Door, random: &mut StdRng, kind: &str, data: Value) -> anyhow::Result<()> {
        let id = uuid::Uuid::now_v7().to_string();
        let event = json!({ "event_id": id, "event_type": kind, "event_data": data });
        let path = format!("/api/v1/sandboxes/{}/events", self.sandbox);
        door.insist(Ask::post(&path, &event).with_token(&self.token), random).await?;
        Ok(())
    }

    /// Takes messages until told to stop, as a worker does: it acknowledges, and says what the agent was told.
    pub(super) async fn work(self, door: Door, seed: u64, stop: CancellationToken) -> anyhow::Result<()> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut acknowledge: Vec<String> = Vec::new();
        while !stop.is_cancelled() {
            let ack = if acknowledge.is_empty() {
                String::new()
            } else {
                format!("&ack={}", acknowledge.join(","))
            };
            let path = format!("/api/v1/sandboxes/{}/messages?wait=2{ack}", self.sandbox);
            let poll = Ask::get(&path).with_token(&self.token);
            let given = tokio::select! {
                given = door.ask(random.random_range(0..2), poll) => given,
                () = stop.cancelled() => return Ok(()),
            };
            match given {
                Some((200, Value::Array(messages))) => {
                    checker::polled(&messages).with_context(|| self.sandbox.clone())?;
                    if messages.windows(2).any(|pair| pair[0]["seq"].as_i64() > pair[1]["seq"].as_i64()) {
                        self.overtaken.fetch_add(1, Ordering::Relaxed);
                    }
                    acknowledge.clear();
                    for message in messages {
                        let id = message["id"].as_str().context("id")?.to_owned();
                        let data = json!({ "message_id": id, "content": message["content"] });
                        self.say(&door, &mut random, "agent.message_injected", data).await?;
                        self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
                        acknowledge.push(id);
                    }
                    if random.random_ratio(1, DOZES) {
                        tokio::time::sleep(Duration::from_millis(random.random_range(0..1500))).await;
                    }
                }
                Some((503, _)) | None => tokio::time::sleep(Duration::from_millis(50)).await,
                Some((status, body)) => bail!("{path}: {status} {body}"),
            }
        }
        Ok(())
    }
}

/// Sends messages to random inboxes until told to stop. A send that got no answer is not repeated: it may have
/// been stored, and nobody was promised anything.
pub(super) async fn send(
    door: Door,
    inboxes: Vec<String>,
    seed: u64,
    stop: CancellationToken,
) -> anyhow::Result<Vec<Sent>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut sent = Vec::new();
    while !stop.is_cancelled() {
        let sandbox = &inboxes[random.random_range(0..inboxes.len())];
        let kind = if random.random_ratio(1, INTERRUPTS) { "interrupt" } else { "user_message" };
        let content = format!("message {}", random.random::<u64>());
        let body = json!({ "content": content, "message_type": kind });
        let path = format!("/api/v1/sandboxes/{sandbox}/messages");
        match door.ask(random.random_range(0..2), Ask::post(&path, &body)).await {
            Some((200, answer)) => {
                let id = answer["message_id"].as_str().context("message_id")?.to_owned();
                sent.push(Sent { sandbox: sandbox.clone(), id });
            }
            Some((503, _)) | None => {}
            Some((status, body)) => bail!("{path}: {status} {body}"),
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(20..200))).await;
    }
    Ok(sent)
}
