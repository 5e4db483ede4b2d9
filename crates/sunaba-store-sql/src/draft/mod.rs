//! What one transaction knows and is going to write.
//!
//! A store reads what it needs into a [`Draft`], lets the rules change it in memory, and then writes what was
//! collected, many rows at a time. The rules are here because they are the same for every database: which
//! event is taken in, what it causes, what a state change says in the log and in the feed.

mod change;
mod changed;
mod ingest;
mod loaded;
mod messages;
mod nodes;
mod plan;
mod questions;
mod record;
mod registry;
mod sessions;
mod spending;
mod standing;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sunaba_store::FeedEntry;
use sunaba_types::{SandboxId, TaskId, Timestamp};

pub use change::{EXTERNAL, STATE_CHANGED, TicketTouch};
pub use changed::ChangedLog;
pub use ingest::{Known, KnownRow, OnMessages, Taken};
pub use loaded::{LoadedSandbox, LoadedTask, Log};
pub use messages::{bounded, overdue_at};
pub use plan::{PlannedSandbox, external_sandbox};
pub use questions::{Precedent, refuse_other_question};
pub use record::{NewEventRow, NewFeedRow, Notice, Says};
pub use registry::patched;
pub use sessions::Again;
pub use spending::{Cap, Grant};
pub use standing::{refuse_long_ended, superseded};

use crate::facts::Turn;

/// See the module.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The moment of the transaction.
    pub now: Timestamp,
    /// How long a sandbox may be silent that does not heartbeat continuously.
    pub legacy_silence_seconds: i64,
    /// Sandboxes by id, so that they are written in one order. Boxed: they are large, and a map moves what is in it.
    pub sandboxes: BTreeMap<SandboxId, Box<LoadedSandbox>>,
    /// Tasks by id.
    pub tasks: HashMap<TaskId, LoadedTask>,
    /// Events of this transaction by sandbox and id, and earlier ones whose id is used again.
    pub known: HashMap<SandboxId, HashMap<String, Known>>,
    /// Events to be written.
    pub events: Vec<NewEventRow>,
    /// Feed entries to be written, in their order.
    pub feed: Vec<NewFeedRow>,
    /// Feed entries that were written, with their positions.
    pub published: Vec<Arc<FeedEntry>>,
    /// What is added to turns of the outline.
    pub turns: BTreeMap<(SandboxId, i64), Turn>,
    /// Search calls that were made.
    pub noisy_opened: Vec<(SandboxId, String)>,
    /// Search calls whose result came.
    pub noisy_closed: Vec<(SandboxId, String)>,
    /// Sandboxes that ended.
    pub ended: BTreeSet<SandboxId>,
    /// Suspended sandboxes whose task no longer waits.
    pub(super) no_longer_waited_for: BTreeSet<SandboxId>,
    /// The feed's last position, once it is known.
    pub position: Option<i64>,
}

impl Draft {
    /// One that knows nothing.
    pub fn new(now: Timestamp, legacy_silence_seconds: i64) -> Self {
        Self {
            now,
            legacy_silence_seconds,
            sandboxes: BTreeMap::new(),
            tasks: HashMap::new(),
            known: HashMap::new(),
            events: Vec::new(),
            feed: Vec::new(),
            published: Vec::new(),
            turns: BTreeMap::new(),
            noisy_opened: Vec::new(),
            noisy_closed: Vec::new(),
            ended: BTreeSet::new(),
            no_longer_waited_for: BTreeSet::new(),
            position: None,
        }
    }

    /// Forgets everything but the moment.
    pub fn forget(&mut self) {
        *self = Self::new(self.now, self.legacy_silence_seconds);
    }
}
