//! Reporting: every event is written to the spool first and sent from there.
//!
//! Whoever emits never waits for the network, and what was emitted survives the
//! worker's death. Heartbeats do not come this way.

mod sender;
mod spool;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use sunaba_types::{Source, Step, new_event_id};
use tokio::sync::watch;

pub(super) use self::sender::Sender;
pub use self::spool::{SPOOL_MAX_BYTES, Spool};
use super::config::Identity;
use super::http::Client;

/// Stands where the sandbox's token would.
const TOKEN_MARK: &str = "[sandbox token]";

/// How far the spool has been written and acknowledged, for those who wait on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    emitted: u64,
    acknowledged: u64,
}

/// Takes events. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reporter(Arc<Inner>);

struct Inner {
    /// Left out of everything that is told: whoever may read the story may not act as the sandbox.
    token: String,
    callback_url: String,
    spool: Mutex<Spool>,
    progress: watch::Sender<Progress>,
    fixed: Map<String, Value>,
    emitted: AtomicU64,
    heard: AtomicBool,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("spool", &self.spool).finish_non_exhaustive()
    }
}

impl Reporter {
    /// Reports as this sandbox, through this spool.
    pub fn new(identity: &Identity, spool: Spool) -> Self {
        let mut fixed = Map::new();
        fixed.insert("sandbox_id".to_owned(), identity.sandbox_id.clone().into());
        fixed.insert("task_id".to_owned(), identity.task_id.clone().into());
        fixed.insert("agent_id".to_owned(), identity.agent_id.clone().into());
        let waiting = spool.waiting_events();
        let progress = watch::Sender::new(Progress { emitted: waiting, acknowledged: 0 });
        Self(Arc::new(Inner {
            token: identity.token.clone(),
            callback_url: identity.callback_url.clone(),
            spool: Mutex::new(spool),
            progress,
            fixed,
            emitted: AtomicU64::new(0),
            heard: AtomicBool::new(false),
        }))
    }

    /// Writes an event down for sending, and gives its id. Command output may be left out when the spool is full;
    /// nothing else is.
    pub fn emit(&self, event_type: &str, source: Source, fields: Map<String, Value>) -> String {
        self.emit_with(event_type, source, fields, None)
    }

    /// Writes events down of which the first may be the last that the server waits for: they are sent together.
    pub(super) fn emit_together(&self, events: Vec<(&str, Source, Map<String, Value>)>) {
        let lines: Vec<_> = events
            .into_iter()
            .filter_map(|(event_type, source, fields)| {
                serde_json::to_vec(&self.envelope(event_type, source, fields)).ok()
            })
            .collect();
        let mut spool = self.spool();
        let kept = lines.iter().filter(|line| spool.append(line, false)).count() as u64;
        drop(spool);
        self.count(kept);
    }

    fn count(&self, kept: u64) {
        self.0.emitted.fetch_add(kept, Ordering::Relaxed);
        self.0.progress.send_modify(|progress| progress.emitted += kept);
    }

    /// The same, with the tree of files after an event.
    pub(super) fn emit_with(
        &self,
        event_type: &str,
        source: Source,
        fields: Map<String, Value>,
        step: Option<&Step>,
    ) -> String {
        let mut event = self.envelope(event_type, source, fields);
        if let Some(step) = step {
            event["step"] = serde_json::json!(step);
        }
        let event_id = event["event_id"].as_str().unwrap_or_default().to_owned();
        let Ok(line) = serde_json::to_vec(&event) else { return event_id };
        let kept = self.spool().append(&line, event_type == "agent.tool_output");
        self.count(u64::from(kept));
        event_id
    }

    /// A connection of its own to the server.
    pub(super) fn client(&self) -> Result<Client, super::http::Error> {
        Client::new(&self.0.callback_url, &self.0.token)
    }

    /// The event as it goes over the wire.
    pub(super) fn envelope(&self, event_type: &str, source: Source, mut fields: Map<String, Value>) -> Value {
        for (name, value) in &self.0.fixed {
            fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
        let mut fields = Value::Object(fields);
        redact(&mut fields, &self.0.token);
        serde_json::json!({
            "event_id": new_event_id(),
            "event_type": event_type,
            "source": source.as_str(),
            "event_data": fields,
        })
    }

    /// A text without the sandbox's token.
    pub(super) fn without_token(&self, text: &str) -> String {
        text.replace(&self.0.token, TOKEN_MARK)
    }

    /// Covers the token wherever it stands; nothing else moves.
    pub(super) fn cover_token(&self, bytes: &mut [u8]) {
        let token = self.0.token.as_bytes();
        let mut from = 0;
        while !token.is_empty() && from + token.len() <= bytes.len() {
            let Some(at) = bytes[from..].windows(token.len()).position(|part| part == token) else { return };
            bytes[from + at..from + at + token.len()].fill(b'x');
            from += at + token.len();
        }
    }

    /// Events emitted by this process.
    pub fn event_count(&self) -> u64 {
        self.0.emitted.load(Ordering::Relaxed)
    }

    /// Events of command output that were left out because the spool was full.
    pub fn dropped_output(&self) -> u64 {
        self.spool().dropped()
    }

    /// Whether the server has acknowledged anything yet.
    pub(super) fn was_heard(&self) -> bool {
        self.0.heard.load(Ordering::Relaxed)
    }

    /// Waits until everything emitted so far is acknowledged; `false` when the time is up first.
    pub async fn flush(&self, patience: Duration) -> bool {
        let mut progress = self.0.progress.subscribe();
        let done = progress.wait_for(|progress| progress.acknowledged >= progress.emitted);
        matches!(tokio::time::timeout(patience, done).await, Ok(Ok(_)))
    }

    fn acknowledged(&self, events: u64) {
        self.0.heard.store(true, Ordering::Relaxed);
        self.0.progress.send_modify(|progress| progress.acknowledged += events);
    }

    fn watch(&self) -> watch::Receiver<Progress> {
        self.0.progress.subscribe()
    }

    fn spool(&self) -> MutexGuard<'_, Spool> {
        self.0.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts the mark in the place of the token, in names too.
fn redact(value: &mut Value, token: &str) {
    match value {
        Value::String(text) if text.contains(token) => *text = text.replace(token, TOKEN_MARK),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, token)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| redact(field, token));
            if fields.keys().any(|name| name.contains(token)) {
                let named = std::mem::take(fields).into_iter();
                fields.extend(named.map(|(name, field)| (name.replace(token, TOKEN_MARK), field)));
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_token_is_left_out_wherever_it_stands() {
        let mut value = json!({"a": ["x sun_1 y", {"sun_1": 1}], "b": {"c": "sun_1sun_1"}, "d": "sun_2"});
        redact(&mut value, "sun_1");
        let mark = TOKEN_MARK;
        let expected = json!({
            "a": [format!("x {mark} y"), {mark: 1}], "b": {"c": format!("{mark}{mark}")}, "d": "sun_2",
        });
        assert_eq!(value, expected);
    }
}
