//! What the store itself reads out of an event's payload.

use serde::Deserialize;
use serde_json::value::RawValue;
use sunaba_types::{EventPayload, Timestamp};

/// Fields of a payload, read without building a tree. A field of the wrong type counts as absent.
#[derive(Debug, Default, Deserialize)]
pub struct Facts<'a> {
    #[serde(default, borrow)]
    turn: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tool_use_id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tool_id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    is_error: Option<&'a RawValue>,
    #[serde(default, borrow)]
    heartbeat: Option<&'a RawValue>,
    #[serde(default, borrow)]
    heartbeat_seconds: Option<&'a RawValue>,
    #[serde(default, borrow)]
    message_id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
}

impl<'a> Facts<'a> {
    pub fn of(payload: &'a EventPayload) -> Self {
        serde_json::from_str(payload.as_str()).unwrap_or_default()
    }

    pub fn turn(&self) -> Option<i64> {
        read(self.turn)
    }

    /// Which call it is about. An id that nobody would give is none: open calls are remembered by it.
    pub fn tool_use_id(&self) -> Option<String> {
        const LONGEST: usize = 200;
        let id: Option<String> = read(self.tool_use_id).or_else(|| read(self.tool_id));
        id.filter(|id| id.len() <= LONGEST)
    }

    pub fn is_error(&self) -> bool {
        read(self.is_error).unwrap_or(false)
    }

    /// Whether the worker promises to be heard whatever its agent does.
    pub fn heartbeats_continuously(&self) -> bool {
        read::<String>(self.heartbeat).is_some_and(|mode| mode == "continuous")
    }

    /// How often, as it says.
    pub fn heartbeat_seconds(&self) -> Option<f64> {
        read(self.heartbeat_seconds)
    }

    pub fn message_id(&self) -> Option<String> {
        read(self.message_id)
    }

    pub fn content(&self) -> Option<String> {
        read(self.content)
    }
}

fn read<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// What this transaction adds to one turn of the outline.
#[derive(Debug, Clone)]
pub struct Turn {
    pub first_seq: i64,
    pub last_seq: i64,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub tools: i64,
    pub errors: i64,
    pub edits: i64,
    pub messages: i64,
}

impl Turn {
    pub fn starting(seq: i64, at: Timestamp) -> Self {
        Self {
            first_seq: seq,
            last_seq: seq,
            started_at: at,
            ended_at: at,
            tools: 0,
            errors: 0,
            edits: 0,
            messages: 0,
        }
    }

    /// Adds what came later.
    pub fn merge(&mut self, later: &Self) {
        self.last_seq = later.last_seq;
        self.ended_at = later.ended_at;
        self.tools += later.tools;
        self.errors += later.errors;
        self.edits += later.edits;
        self.messages += later.messages;
    }

    pub fn count(&mut self, seq: i64, at: Timestamp, event_type: &str, facts: &Facts<'_>) {
        self.last_seq = seq;
        self.ended_at = at;
        match event_type {
            "agent.tool_use" | "agent.subagent_invoked" | "agent.skill_invoked" => self.tools += 1,
            "agent.file_edited" => self.edits += 1,
            "agent.message_injected" => self.messages += 1,
            "agent.error" | "agent.failed" | "agent.stream_error" => self.errors += 1,
            // A failed call is reported twice, as completed and as its result; it counts once.
            "agent.tool_completed" => self.errors += i64::from(facts.is_error()),
            _ => {}
        }
    }
}
