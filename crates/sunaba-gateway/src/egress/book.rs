//! What is known of one sandbox's decisions and not written yet.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::traffic::Traffic;

/// Kinds of refusals that are told apart in one sandbox.
pub(super) const REFUSED_MAX: usize = 256;
/// Kinds of hosts that are let through and that one sandbox's book holds at a time.
pub(super) const ALLOWED_MAX: usize = 4096;
/// Longest error that is kept.
const ERROR_MAX_CHARS: usize = 300;

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
    pub(super) address: Option<IpAddr>,
    pub(super) error: Option<String>,
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
pub(super) struct Kind {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) verdict: Verdict,
}

/// What is not written yet of one kind.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) count: u64,
    pub(super) method: String,
    pub(super) outcome: Outcome,
    pub(super) traffic: Arc<Traffic>,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) entries: HashMap<Kind, Entry>,
    pub(super) allowed: usize,
    pub(super) refused: usize,
    /// Whether somebody will come and write what is open.
    pub(super) awaited: bool,
}

impl Book {
    pub(super) fn counts(&mut self, allowed: bool) -> &mut usize {
        if allowed { &mut self.allowed } else { &mut self.refused }
    }

    pub(super) fn count(&self, allowed: bool) -> usize {
        if allowed { self.allowed } else { self.refused }
    }

    /// Forgets the hosts that nothing is open to; what is to be written about them first.
    pub(super) fn forget_idle(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        self.entries.retain(|kind, entry| {
            // Whoever carries bytes holds on to where they are counted.
            let is_idle = kind.verdict.allowed && Arc::strong_count(&entry.traffic) == 1;
            if is_idle {
                events.extend(entry.summary(kind));
            }
            !is_idle
        });
        self.allowed = self.entries.keys().filter(|kind| kind.verdict.allowed).count();
        events
    }
}

/// The kind under which refusals are counted that there is no room to tell apart.
pub(super) fn gathered() -> Kind {
    let rule = format!("one of more than {REFUSED_MAX} kinds, counted together");
    Kind { host: "*".to_owned(), port: 0, verdict: Verdict { allowed: false, rule } }
}

impl Entry {
    /// What happened since the last time; none when nothing did.
    pub(super) fn summary(&mut self, kind: &Kind) -> Option<Value> {
        let count = std::mem::take(&mut self.count);
        let sent = self.traffic.sent.swap(0, Ordering::Relaxed);
        let received = self.traffic.received.swap(0, Ordering::Relaxed);
        (count + sent + received > 0).then(|| self.event(kind, count, sent, received))
    }

    pub(super) fn event(&self, kind: &Kind, count: u64, sent: u64, received: u64) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(number: usize) -> Kind {
        let verdict = Verdict { allowed: true, rule: "open".to_owned() };
        Kind { host: format!("h{number}.test"), port: 443, verdict }
    }

    #[test]
    fn hosts_with_an_open_connection_are_not_forgotten() {
        let mut book = Book::default();
        for number in 0..4 {
            book.entries.insert(kind(number), Entry { count: 2, ..Entry::default() });
            *book.counts(true) += 1;
        }
        let open = Arc::clone(&book.entries[&kind(1)].traffic);
        let written = book.forget_idle();
        assert_eq!((written.len(), book.count(true)), (3, 1));
        assert!(written.iter().all(|event| event["count"] == 2 && event["host"] != "h1.test"), "{written:?}");
        drop(open);
        assert_eq!(book.forget_idle().len(), 1);
    }
}
