//! Putting one event into the log and one thing into the feed, in memory.

use std::sync::Arc;

use sunaba_store::{Appended, FeedEntry, PublishedPayload};
use sunaba_types::chain::{Hash, Link};
use sunaba_types::{EventClass, EventPayload, NewEvent, ProjectId, SandboxId, Source, Timestamp};

use super::Draft;
use super::{Known, LoadedSandbox};
use crate::facts::{Facts, Turn};
use crate::rows::entry_id;

/// Open search calls that are remembered for one sandbox.
const NOISY_MAX: i64 = 1000;

/// A row of `events` that is to be written.
#[derive(Debug, Clone)]
pub struct NewEventRow {
    /// Whose event it is.
    pub sandbox_id: SandboxId,
    /// Its place in the log.
    pub seq: i64,
    /// Its id.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
    /// Its place among those of its type.
    pub type_seq: i64,
    /// Who says it.
    pub source: &'static str,
    /// What it is to a reader.
    pub class: i16,
    /// When, in microseconds.
    pub created_at: i64,
    /// What was received.
    pub payload: EventPayload,
    /// The hash of its payload.
    pub payload_hash: Hash,
    /// Its link of the chain.
    pub hash: Hash,
    /// The step it belongs to, as JSON.
    pub step: Option<String>,
}

/// A row of `feed` that has no position yet.
#[derive(Debug, Clone)]
pub struct NewFeedRow {
    /// The project, if it belongs to one.
    pub project_id: Option<ProjectId>,
    /// Its type.
    pub event_type: String,
    /// What kind of thing it is about.
    pub entity_type: &'static str,
    /// Which one.
    pub entity_id: String,
    /// The sandbox, if it is about one.
    pub sandbox_id: Option<SandboxId>,
    /// What it says.
    pub says: Says,
    /// When.
    pub created_at: Timestamp,
}

/// What an entry of the feed says.
#[derive(Debug, Clone)]
pub enum Says {
    /// An event, which has its own row.
    Event {
        /// Its place in its log.
        seq: i64,
        /// Its id.
        event_id: String,
        /// Its type as posted.
        event_type: String,
        /// Who says it.
        source: Source,
        /// What was received.
        payload: EventPayload,
    },
    /// Something the server says itself.
    Notice(EventPayload),
}

impl NewFeedRow {
    /// The event that the row refers to.
    pub fn seq(&self) -> Option<i64> {
        match self.says {
            Says::Event { seq, .. } => Some(seq),
            Says::Notice(_) => None,
        }
    }

    /// What it says, unless that is in the event's own row.
    pub fn notice(&self) -> Option<&str> {
        match &self.says {
            Says::Event { .. } => None,
            Says::Notice(payload) => Some(payload.as_str()),
        }
    }

    /// The entry that it is at its position, as one would read it.
    fn at(self, position: i64) -> FeedEntry {
        let seq = self.seq();
        let (id, payload) = match self.says {
            Says::Event { event_id, event_type, source, payload, .. } => {
                (event_id, PublishedPayload::Event { payload, source, event_type })
            }
            Says::Notice(payload) => (entry_id(position), PublishedPayload::Notice(payload)),
        };
        FeedEntry {
            position,
            project_id: self.project_id,
            event_type: self.event_type,
            entity_type: self.entity_type.into(),
            entity_id: self.entity_id,
            sandbox_id: self.sandbox_id,
            id,
            seq,
            payload,
            created_at: self.created_at,
        }
    }
}

impl Draft {
    /// Gives the event its place in the log of a known sandbox and publishes it.
    pub(super) fn record(&mut self, id: &SandboxId, event: &NewEvent, published_as: String) -> Appended {
        let now = self.now;
        let facts = Facts::of(&event.payload);
        let class = self.classify(id, event, &facts);
        let payload_hash = event.payload.hash();
        let loaded = self.sandbox(id);
        let seq = loaded.log.last_seq + 1;
        let link = Link {
            seq,
            event_id: &event.event_id,
            event_type: &event.event_type,
            source: event.source.as_str(),
            created_at_micros: now.as_microsecond(),
            payload_hash: &payload_hash,
        };
        let hash = link.hash(&loaded.log.last_hash);
        loaded.log.last_seq = seq;
        loaded.log.last_hash = hash;
        loaded.log_changed = true;
        match class {
            EventClass::Story => loaded.log.story_count += 1,
            EventClass::Noise => loaded.log.noise_count += 1,
            EventClass::Heartbeat => {
                loaded.log.heartbeat_count += 1;
                loaded.log.first_heartbeat.get_or_insert(now);
                loaded.log.last_heartbeat = Some(now);
            }
        }
        let type_seq = loaded.next_of_type(&event.event_type);
        let project_id = loaded.row.project_id.clone();
        self.outline(id, seq, &event.event_type, &facts);
        let step = event.step.as_ref().and_then(|step| serde_json::to_string(step).ok());
        let known = Known::new(seq, now, event, payload_hash, step.clone());
        self.know(id, event.event_id.clone(), known);
        self.events.push(NewEventRow {
            sandbox_id: id.clone(),
            seq,
            event_id: event.event_id.clone(),
            event_type: event.event_type.clone(),
            type_seq,
            source: event.source.as_str(),
            class: i16::try_from(class.as_i64()).expect("classes are few"),
            created_at: now.as_microsecond(),
            payload: event.payload.clone(),
            payload_hash,
            hash,
            step,
        });
        self.publish_event(project_id, published_as, id, seq, event);
        Appended { seq, event_id: event.event_id.clone(), created_at: now, duplicate: false }
    }

    /// Publishes something the server says itself.
    pub fn publish(&mut self, notice: Notice<'_>) {
        let payload = EventPayload::from_stored(notice.payload.to_string());
        self.feed.push(NewFeedRow {
            project_id: notice.project_id.cloned(),
            event_type: notice.event_type.to_owned(),
            entity_type: notice.entity_type,
            entity_id: notice.entity_id.to_owned(),
            sandbox_id: notice.sandbox_id.cloned(),
            says: Says::Notice(payload.unwrap_or_else(|_| EventPayload::empty())),
            created_at: self.now,
        });
    }

    fn publish_event(
        &mut self,
        project_id: Option<ProjectId>,
        name: String,
        id: &SandboxId,
        seq: i64,
        event: &NewEvent,
    ) {
        self.feed.push(NewFeedRow {
            project_id,
            event_type: name,
            entity_type: "sandbox",
            entity_id: id.to_string(),
            sandbox_id: Some(id.clone()),
            says: Says::Event {
                seq,
                event_id: event.event_id.clone(),
                event_type: event.event_type.clone(),
                source: event.source,
                payload: event.payload.clone(),
            },
            created_at: self.now,
        });
    }

    /// These rows were written, the last of them at this position.
    pub fn published(&mut self, rows: Vec<NewFeedRow>, last: i64) {
        let first = last - i64::try_from(rows.len()).expect("a batch is small") + 1;
        let entries = rows.into_iter().zip(first..).map(|(row, position)| Arc::new(row.at(position)));
        self.published.extend(entries);
        self.position = Some(last);
    }

    /// A search call's result carries only the call's id, so noisy calls are remembered until it comes.
    fn classify(&mut self, id: &SandboxId, event: &NewEvent, facts: &Facts<'_>) -> EventClass {
        let class = event.class();
        let opens = event.event_type == "agent.tool_use" && class == EventClass::Noise;
        let closes = event.event_type == "agent.tool_result";
        if !opens && !closes {
            return class;
        }
        let Some(call) = facts.tool_use_id() else { return class };
        let loaded = self.sandbox(id);
        if opens && loaded.log.noisy_count < NOISY_MAX && loaded.noisy.insert(call.clone()) {
            loaded.log.noisy_count += 1;
            if !take_out(&mut self.noisy_closed, id, &call) {
                self.noisy_opened.push((id.clone(), call));
            }
        } else if closes && loaded.noisy.remove(&call) {
            loaded.log.noisy_count -= 1;
            if !take_out(&mut self.noisy_opened, id, &call) {
                self.noisy_closed.push((id.clone(), call));
            }
            return EventClass::Noise;
        }
        class
    }

    fn outline(&mut self, id: &SandboxId, seq: i64, event_type: &str, facts: &Facts<'_>) {
        let Some(turn) = facts.turn() else { return };
        let now = self.now;
        self.turns
            .entry((id.clone(), turn))
            .or_insert_with(|| Turn::starting(seq, now))
            .count(seq, now, event_type, facts);
    }
}

/// Takes a call out of those that are to be written; whether it was there. What is opened and closed in one
/// transaction, or the other way round, leaves its row as it was.
fn take_out(calls: &mut Vec<(SandboxId, String)>, id: &SandboxId, call: &str) -> bool {
    let found = calls.iter().position(|(of, held)| of == id && held == call);
    found.map(|place| calls.swap_remove(place)).is_some()
}

/// Something the server says in the feed.
#[derive(Debug)]
pub struct Notice<'a> {
    /// The project, if it belongs to one.
    pub project_id: Option<&'a ProjectId>,
    /// Its type.
    pub event_type: &'a str,
    /// What kind of thing it is about.
    pub entity_type: &'static str,
    /// Which one.
    pub entity_id: &'a str,
    /// The sandbox, if it is about one.
    pub sandbox_id: Option<&'a SandboxId>,
    /// What it says.
    pub payload: serde_json::Value,
}

impl LoadedSandbox {
    fn next_of_type(&mut self, event_type: &str) -> i64 {
        let count = match self.types.get_mut(event_type) {
            Some(count) => count,
            None => self.types.entry(event_type.to_owned()).or_default(),
        };
        if !self.changed_types.contains_key(event_type) {
            self.changed_types.insert(event_type.to_owned(), *count == 0);
        }
        if *count == 0 {
            self.log.type_count += 1;
        }
        *count += 1;
        *count
    }
}
