//! Signals about single sandboxes, for those who wait for one: event streams and long polls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sunaba_types::SandboxId;
use tokio::sync::watch;

use super::Frame;

#[derive(Debug)]
struct Signals {
    events: watch::Sender<u64>,
    messages: watch::Sender<u64>,
    watches: usize,
}

type Table = Arc<Mutex<HashMap<SandboxId, Signals>>>;

/// Everyone who waits for a sandbox.
#[derive(Debug, Default)]
pub(super) struct Watchers(Table);

/// A place in the table of those who wait; given up when dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Changes when something of the sandbox was published.
    pub(crate) events: watch::Receiver<u64>,
    /// Changes when a message was queued for it.
    pub(crate) messages: watch::Receiver<u64>,
    sandbox_id: SandboxId,
    table: Table,
}

impl Watchers {
    pub(super) fn watch(&self, sandbox_id: &SandboxId) -> Watch {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let signals = table.entry(sandbox_id.clone()).or_insert_with(|| Signals {
            events: watch::Sender::new(0),
            messages: watch::Sender::new(0),
            watches: 0,
        });
        signals.watches += 1;
        Watch {
            events: signals.events.subscribe(),
            messages: signals.messages.subscribe(),
            sandbox_id: sandbox_id.clone(),
            table: Arc::clone(&self.0),
        }
    }

    /// Signals what the frames are about.
    pub(super) fn published(&self, frames: &[Arc<Frame>]) {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.is_empty() {
            return;
        }
        for frame in frames {
            let Some(signals) = frame.sandbox_id().and_then(|id| table.get(id)) else { continue };
            signals.events.send_modify(|count| *count += 1);
            if frame.plain_type() == "sandbox_message_queued" {
                signals.messages.send_modify(|count| *count += 1);
            }
        }
    }

    pub(super) fn has(&self, sandbox_id: &SandboxId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(sandbox_id)
    }

    /// Signals that a message was queued.
    pub(super) fn message(&self, sandbox_id: &SandboxId) {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signals) = table.get(sandbox_id) {
            signals.messages.send_modify(|count| *count += 1);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(signals) = table.get_mut(&self.sandbox_id) {
            signals.watches -= 1;
            if signals.watches == 0 {
                table.remove(&self.sandbox_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_empties_when_nobody_waits() {
        let watchers = Watchers::default();
        let id = SandboxId::generate();
        let (one, two) = (watchers.watch(&id), watchers.watch(&id));
        watchers.message(&id);
        assert!(one.messages.has_changed().unwrap() && !one.events.has_changed().unwrap());
        drop(one);
        assert_eq!(watchers.0.lock().unwrap().len(), 1);
        drop(two);
        assert!(watchers.0.lock().unwrap().is_empty());
    }
}
