//! Every decision, written into the sandbox's log.
//!
//! The first of its kind (host, port, decision, rule) is written at once: after
//! the address was found and connected to, which is part of the event, and before
//! the client is answered or a byte of it is carried. Repeats are counted, with
//! the bytes that were carried, and written at most once per interval and when
//! the sandbox's door closes. Refused kinds past [`REFUSED_MAX`] are counted
//! together, so that a program that asks for ever new names cannot fill the log.
//! A host that is reached is always named: past [`ALLOWED_MAX`] kinds those with
//! no open connection are written and forgotten, and count as new when they come
//! again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use serde_json::Value;
use sunaba_store::{Append, Store, Writer};
use sunaba_types::{NewEvent, SandboxId};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::book::{ALLOWED_MAX, Book, Kind, Outcome, REFUSED_MAX, Verdict, gathered};
use super::request::Target;
use super::traffic::Traffic;

/// How long writing may take before the request goes on without.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
const EVENT_TYPE: &str = "gateway.egress";

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
        let (traffic, events) = self.enter(id, kind, method, outcome);
        self.shared.write(id, events).await;
        self.await_summary(id);
        traffic
    }

    /// Enters a decision; the events to write, its own among them when it is the first of its kind.
    fn enter(
        &self,
        id: &SandboxId,
        kind: Kind,
        method: &str,
        outcome: Outcome,
    ) -> (Arc<Traffic>, Vec<Value>) {
        let mut books = self.shared.books();
        let book = books.entry(id.clone()).or_default();
        let is_new = !book.entries.contains_key(&kind);
        let (kind, mut events) = match kind.verdict.allowed {
            true if is_new && book.count(true) >= ALLOWED_MAX => (kind, book.forget_idle()),
            false if is_new && book.count(false) >= REFUSED_MAX => (gathered(), Vec::new()),
            _ => (kind, Vec::new()),
        };
        let known = book.entries.contains_key(&kind);
        let entry = book.entries.entry(kind.clone()).or_default();
        entry.method.clear();
        entry.method.extend(method.chars().take(32));
        entry.outcome = outcome;
        if known {
            entry.count += 1;
        } else {
            events.push(entry.event(&kind, 1, 0, 0));
        }
        let traffic = Arc::clone(&entry.traffic);
        *book.counts(kind.verdict.allowed) += usize::from(!known);
        (traffic, events)
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
