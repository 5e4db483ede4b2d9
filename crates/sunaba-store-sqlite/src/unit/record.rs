//! Putting one event into the log and one thing into the feed, in memory.

use serde::Serialize;
use sunaba_store::Appended;
use sunaba_types::chain::{Link, hex};
use sunaba_types::{EventClass, NewEvent, ProjectId, SandboxId};

use super::Unit;
use super::facts::{Facts, Turn};
use super::ingest::Known;

/// Open search calls that are remembered for one sandbox.
const NOISY_MAX: usize = 1000;

/// A row of `events`, in the order in which the insert reads it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct EventRow(
    pub(super) String,         // sandbox_id
    pub(super) i64,            // seq
    pub(super) String,         // event_id
    pub(super) String,         // event_type
    pub(super) i64,            // type_seq
    pub(super) &'static str,   // source
    pub(super) i64,            // class
    pub(super) i64,            // created_at
    pub(super) String,         // payload, as the text that was received
    pub(super) String,         // payload_hash
    pub(super) String,         // hash
    pub(super) Option<String>, // step
);

/// A row of `feed`, in the order in which the insert reads it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FeedRow(
    pub(super) Option<String>, // project_id
    pub(super) String,         // event_type
    pub(super) &'static str,   // entity_type
    pub(super) String,         // entity_id
    pub(super) Option<String>, // sandbox_id
    pub(super) Option<i64>,    // seq
    pub(super) Option<String>, // payload
    pub(super) i64,            // created_at
);

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
        self.state.events.push(EventRow(
            id.to_string(),
            seq,
            event.event_id.clone(),
            event.event_type.clone(),
            type_seq,
            event.source.as_str(),
            class.as_i64(),
            now.as_microsecond(),
            event.payload.as_str().to_owned(),
            hex(&payload_hash),
            hex(&hash),
            step,
        ));
        self.publish_event(project_id, published_as, id, seq);
        Appended { seq, event_id: event.event_id.clone(), created_at: now, duplicate: false }
    }

    /// Publishes something the server says itself.
    pub(crate) fn publish(&mut self, notice: Notice<'_>) {
        let created_at = self.now().as_microsecond();
        self.state.feed.push(FeedRow(
            notice.project_id.map(ToString::to_string),
            notice.event_type.to_owned(),
            notice.entity_type,
            notice.entity_id.to_owned(),
            notice.sandbox_id.map(ToString::to_string),
            None,
            Some(notice.payload.to_string()),
            created_at,
        ));
    }

    fn publish_event(&mut self, project_id: Option<ProjectId>, name: String, id: &SandboxId, seq: i64) {
        let created_at = self.now().as_microsecond();
        let project_id = project_id.map(String::from);
        let sandbox = id.to_string();
        self.state.feed.push(FeedRow(
            project_id,
            name,
            "sandbox",
            sandbox.clone(),
            Some(sandbox),
            Some(seq),
            None,
            created_at,
        ));
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
        if opens && loaded.noisy.len() < NOISY_MAX && loaded.noisy.insert(call.clone()) {
            self.state.noisy_opened.push((id.clone(), call));
        } else if closes && loaded.noisy.remove(&call) {
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
                self.types.insert(event_type.to_owned(), 1);
                1
            }
        }
    }
}
