//! Every decision, written into the sandbox's log.
//!
//! The first of its kind (host, port, decision, rule) is written at once, before
//! it is acted on. Repeats are counted, with the bytes that were carried, and
//! written at most once per interval and when the sandbox's door closes. Kinds
//! past [`KINDS_MAX`] are counted together, so that a program that asks for ever
//! new names cannot fill the log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sunaba_store::{Append, Store, Writer};
use sunaba_types::{NewEvent, SandboxId};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::request::Target;
use super::traffic::Traffic;

/// Kinds of decisions that are told apart in one sandbox.
const KINDS_MAX: usize = 256;
/// How long writing may take before the request goes on without.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest error that is kept.
const ERROR_MAX_CHARS: usize = 300;
const EVENT_TYPE: &str = "gateway.egress";

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    pub(super) rule: String,
}

impl Verdict {
    pub(super) const fn refused(rule: String) -> Self {
        Self { allowed: false, rule }
    }
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    address: Option<IpAddr>,
    error: Option<String>,
}

impl Outcome {
    pub(super) const fn reached(address: IpAddr) -> Self {
        Self { address: Some(address), error: None }
    }

    pub(super) fn failed(error: String) -> Self {
        Self { address: None, error: Some(error.chars().take(ERROR_MAX_CHARS).collect()) }
    }
}

/// What makes two decisions the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    host: String,
    port: u16,
    verdict: Verdict,
}

/// What is not written yet of one kind.
#[derive(Debug, Default)]
struct Entry {
    count: u64,
    method: String,
    outcome: Outcome,
    traffic: Arc<Traffic>,
}

#[derive(Debug, Default)]
struct Book {
    entries: HashMap<Kind, Entry>,
    /// Whether somebody will come and write what is open.
    awaited: bool,
}

/// The books of all sandboxes.
#[derive(Debug)]
pub(super) struct Ledger {
    shared: Arc<Shared>,
    interval: Duration,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    store: Arc<dyn Store>,
    books: Mutex<HashMap<SandboxId, Book>>,
}

impl Ledger {
    pub(super) fn new(store: Arc<dyn Store>, interval: Duration) -> Self {
        let shared = Arc::new(Shared { store, books: Mutex::default() });
        Self { shared, interval, tasks: TaskTracker::new(), stop: CancellationToken::new() }
    }

    /// Writes a decision down, or counts it; gives where its bytes are counted.
    pub(super) async fn decided(
        &self,
        id: &SandboxId,
        target: &Target,
        method: &Method,
        verdict: Verdict,
        outcome: Outcome,
    ) -> Arc<Traffic> {
        let method = if method == Method::CONNECT { "connect" } else { method.as_str() };
        let kind = Kind { host: target.name(), port: target.port, verdict };
        let (traffic, first) = self.enter(id, kind, method, outcome);
        if let Some(first) = first {
            self.shared.write(id, vec![first]).await;
        }
        self.await_summary(id);
        traffic
    }

    /// Enters a decision; the event to write when it is the first of its kind.
    fn enter(
        &self,
        id: &SandboxId,
        kind: Kind,
        method: &str,
        outcome: Outcome,
    ) -> (Arc<Traffic>, Option<Value>) {
        let mut books = self.shared.books();
        let book = books.entry(id.clone()).or_default();
        let full = book.entries.len() >= KINDS_MAX && !book.entries.contains_key(&kind);
        let kind = if full { gathered(kind) } else { kind };
        let known = book.entries.contains_key(&kind);
        let entry = book.entries.entry(kind.clone()).or_default();
        entry.method.clear();
        entry.method.extend(method.chars().take(32));
        entry.outcome = outcome;
        let first = (!known).then(|| entry.event(&kind, 1, 0, 0));
        entry.count += u64::from(known);
        (Arc::clone(&entry.traffic), first)
    }

    /// Has somebody come back in a while, unless one is on the way.
    fn await_summary(&self, id: &SandboxId) {
        {
            let mut books = self.shared.books();
            let Some(book) = books.get_mut(id) else { return };
            if std::mem::replace(&mut book.awaited, true) {
                return;
            }
        }
        let (shared, id, interval, stop) =
            (Arc::clone(&self.shared), id.clone(), self.interval, self.stop.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(interval) => shared.summarise(&id).await,
                () = stop.cancelled() => {}
            }
        });
    }

    /// Writes what is open and forgets the sandbox.
    pub(super) async fn close(&self, id: &SandboxId) {
        self.shared.summarise(id).await;
        self.shared.books().remove(id);
    }

    /// Writes everything that is open.
    pub(super) async fn drain(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let ids: Vec<SandboxId> = self.shared.books().keys().cloned().collect();
        for id in ids {
            self.shared.summarise(&id).await;
        }
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, HashMap<SandboxId, Book>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is open in one sandbox's book.
    async fn summarise(&self, id: &SandboxId) {
        let events = {
            let mut books = self.books();
            let Some(book) = books.get_mut(id) else { return };
            book.awaited = false;
            let open = book.entries.iter_mut().filter_map(|(kind, entry)| entry.summary(kind));
            open.collect::<Vec<_>>()
        };
        self.write(id, events).await;
    }

    /// A lost record is logged and does not fail the request: the decision stands.
    async fn write(&self, id: &SandboxId, events: Vec<Value>) {
        if events.is_empty() {
            return;
        }
        let events = events.iter().map(|event| NewEvent::by_server(EVENT_TYPE, event)).collect();
        let append = Append { sandbox_id: id.clone(), writer: Writer::Server, events };
        match timeout(WRITE_TIMEOUT, self.store.append(append)).await {
            Ok(Ok(outcomes)) => {
                for rejection in outcomes.into_iter().filter_map(Result::err) {
                    tracing::warn!(sandbox_id = %id, ?rejection, "an egress event was not recorded");
                }
            }
            Ok(Err(error)) => tracing::warn!(sandbox_id = %id, %error, "an egress event was not recorded"),
            Err(_) => tracing::warn!(sandbox_id = %id, "an egress event was not recorded in time"),
        }
    }
}

/// The kind under which decisions are counted that there is no room to tell apart.
fn gathered(kind: Kind) -> Kind {
    let rule = format!("one of more than {KINDS_MAX} kinds, counted together");
    Kind { host: "*".to_owned(), port: 0, verdict: Verdict { allowed: kind.verdict.allowed, rule } }
}

impl Entry {
    /// What happened since the last time; none when nothing did.
    fn summary(&mut self, kind: &Kind) -> Option<Value> {
        let count = std::mem::take(&mut self.count);
        let sent = self.traffic.sent.swap(0, Ordering::Relaxed);
        let received = self.traffic.received.swap(0, Ordering::Relaxed);
        (count + sent + received > 0).then(|| self.event(kind, count, sent, received))
    }

    fn event(&self, kind: &Kind, count: u64, sent: u64, received: u64) -> Value {
        let mut event = json!({
            "host": kind.host,
            "port": kind.port,
            "method": self.method,
            "decision": if kind.verdict.allowed { "allowed" } else { "refused" },
            "rule": kind.verdict.rule,
            "count": count,
        });
        if let Some(address) = self.outcome.address {
            event["address"] = json!(address.to_string());
        }
        if let Some(error) = &self.outcome.error {
            event["error"] = json!(error);
        }
        if sent + received > 0 {
            event["sent_bytes"] = json!(sent);
            event["received_bytes"] = json!(received);
        }
        event
    }
}
