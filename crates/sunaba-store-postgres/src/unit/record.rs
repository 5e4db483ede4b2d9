//! Putting one event into the log and one thing into the feed, in memory.

use sunaba_store::Appended;
use sunaba_types::chain::{Hash, Link};
use sunaba_types::{EventClass, NewEvent, ProjectId, SandboxId};

use super::Unit;
use super::ingest::Known;
use sunaba_store_sql::facts::{Facts, Turn};

/// Open search calls that are remembered for one sandbox.
const NOISY_MAX: i64 = 1000;

/// A row of `events`.
#[derive(Debug, Clone)]
pub(super) struct EventRow {
    pub(super) sandbox_id: String,
    pub(super) seq: i64,
    pub(super) event_id: String,
    pub(super) event_type: String,
    pub(super) type_seq: i64,
    pub(super) source: &'static str,
    pub(super) class: i16,
    pub(super) created_at: i64,
    /// The bytes that were received.
    pub(super) payload: Vec<u8>,
    pub(super) payload_hash: Hash,
    pub(super) hash: Hash,
    pub(super) step: Option<String>,
}

/// A row of `feed` that has no position yet.
#[derive(Debug, Clone)]
pub(super) struct FeedRow {
    pub(super) project_id: Option<String>,
    pub(super) event_type: String,
    pub(super) entity_type: &'static str,
    pub(super) entity_id: String,
    pub(super) sandbox_id: Option<String>,
    /// The event it refers to; such a row brings no payload of its own.
    pub(super) seq: Option<i64>,
    pub(super) payload: Option<String>,
    pub(super) created_at: i64,
}

impl Unit {
    /// Gives the event its place in the log of a known sandbox and publishes it.
    pub(super) fn record(&mut self, id: &SandboxId, event: &NewEvent, published_as: String) -> Appended {
        let now = self.now();
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
        self.state.known.insert((id.clone(), event.event_id.clone()), known);
        self.state.events.push(EventRow {
            sandbox_id: id.to_string(),
            seq,
            event_id: event.event_id.clone(),
            event_type: event.event_type.clone(),
            type_seq,
            source: event.source.as_str(),
            class: i16::try_from(class.as_i64()).expect("classes are few"),
            created_at: now.as_microsecond(),
            payload: event.payload.as_str().as_bytes().to_vec(),
            payload_hash,
            hash,
            step,
        });
        self.publish_event(project_id, published_as, id, seq);
        Appended { seq, event_id: event.event_id.clone(), created_at: now, duplicate: false }
    }

    /// Publishes something the server says itself.
    pub(crate) fn publish(&mut self, notice: Notice<'_>) {
        let created_at = self.now().as_microsecond();
        self.state.feed.push(FeedRow {
            project_id: notice.project_id.map(ToString::to_string),
            event_type: notice.event_type.to_owned(),
            entity_type: notice.entity_type,
            entity_id: notice.entity_id.to_owned(),
            sandbox_id: notice.sandbox_id.map(ToString::to_string),
            seq: None,
            payload: Some(notice.payload.to_string()),
            created_at,
        });
    }

    fn publish_event(&mut self, project_id: Option<ProjectId>, name: String, id: &SandboxId, seq: i64) {
        let created_at = self.now().as_microsecond();
        let sandbox = id.to_string();
        self.state.feed.push(FeedRow {
            project_id: project_id.map(String::from),
            event_type: name,
            entity_type: "sandbox",
            entity_id: sandbox.clone(),
            sandbox_id: Some(sandbox),
            seq: Some(seq),
            payload: None,
            created_at,
        });
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
            self.state.noisy_opened.push((id.clone(), call));
        } else if closes && loaded.noisy.remove(&call) {
            loaded.log.noisy_count -= 1;
            self.state.noisy_closed.push((id.clone(), call));
            return EventClass::Noise;
        }
        class
    }

    fn outline(&mut self, id: &SandboxId, seq: i64, event_type: &str, facts: &Facts<'_>) {
        let Some(turn) = facts.turn() else { return };
        let now = self.now();
        self.state
            .turns
            .entry((id.clone(), turn))
            .or_insert_with(|| Turn::starting(seq, now))
            .count(seq, now, event_type, facts);
    }
}

/// Something the server says in the feed.
#[derive(Debug)]
pub(crate) struct Notice<'a> {
    pub(crate) project_id: Option<&'a ProjectId>,
    pub(crate) event_type: &'a str,
    pub(crate) entity_type: &'static str,
    pub(crate) entity_id: &'a str,
    pub(crate) sandbox_id: Option<&'a SandboxId>,
    pub(crate) payload: serde_json::Value,
}

impl super::LoadedSandbox {
    fn next_of_type(&mut self, event_type: &str) -> i64 {
        if !self.changed_types.contains(event_type) {
            self.changed_types.insert(event_type.to_owned());
        }
        match self.types.get_mut(event_type) {
            Some(count) => {
                *count += 1;
                *count
            }
            None => {
                self.log.type_count += 1;
                self.types.insert(event_type.to_owned(), 1);
                1
            }
        }
    }
}
