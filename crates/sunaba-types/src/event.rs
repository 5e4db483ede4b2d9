//! Events: one line each of a sandbox's log.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::chain::{self, Hash, Link};
use crate::limits::{EVENT_PAYLOAD_MAX_BYTES, EVENT_TYPE_MAX_CHARS};
use crate::state::wire_enum;
use crate::{SandboxId, Timestamp};

wire_enum!(
    /// Who said an event.
    Source {
        /// The agent, through its worker.
        Agent => "agent",
        /// The worker itself.
        Worker => "worker",
        /// The server: lifecycle and gateway.
        System => "system",
        /// The automatic supervisor.
        Guardian => "guardian",
        /// A person.
        User => "user",
    }
);

impl Source {
    /// Whether a sandbox's own token may speak with this voice.
    pub const fn allowed_from_sandbox(self) -> bool {
        matches!(self, Self::Agent | Self::Worker)
    }
}

/// What an event is to the trajectory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventClass {
    /// Part of the story.
    Story,
    /// Says only "still here".
    Heartbeat,
    /// A search call whose result is rarely worth reading.
    Noise,
}

impl EventClass {
    /// The number kept in the store.
    pub const fn as_i64(self) -> i64 {
        match self {
            Self::Story => 0,
            Self::Heartbeat => 1,
            Self::Noise => 2,
        }
    }
}

/// Whether this type only says that the sandbox lives.
pub fn is_heartbeat(event_type: &str) -> bool {
    matches!(event_type, "agent.heartbeat" | "spec.heartbeat" | "heartbeat")
}

/// The name under which a posted event is published.
pub fn bus_name(event_type: &str) -> String {
    format!("SANDBOX_{event_type}")
}

/// Checks an event type; the error says what is wrong.
pub fn validate_event_type(event_type: &str) -> Result<(), String> {
    let length = event_type.chars().count();
    if length == 0 || length > EVENT_TYPE_MAX_CHARS {
        return Err(format!("must have 1 to {EVENT_TYPE_MAX_CHARS} characters, has {length}"));
    }
    if let Some(bad) =
        event_type.chars().find(|c| c.is_control() || c.is_whitespace() || *c == ',' || *c == '*')
    {
        return Err(format!("cannot contain {bad:?}"));
    }
    Ok(())
}

/// Names that the server publishes itself, without the `SANDBOX_` prefix.
const LIFECYCLE: &[&str] = &[
    "spawned",
    "failed",
    "terminated",
    "terminated_idle",
    "state_changed",
    "message_queued",
    "message_delivered",
];

/// Whether only the server may write events of this type.
///
/// `gateway.` and `sandbox.` are the server's own words, and a type such as
/// `failed` would be published under a lifecycle name (`SANDBOX_FAILED`).
pub fn reserved_for_server(event_type: &str) -> bool {
    let plain = event_type.to_ascii_lowercase().replace('.', "_");
    plain.starts_with("gateway_") || plain.starts_with("sandbox_") || LIFECYCLE.contains(&plain.as_str())
}

/// Why bytes cannot be an event's payload.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PayloadError {
    /// Not a JSON object.
    #[error("must be a JSON object")]
    NotAnObject,
    /// Over [`EVENT_PAYLOAD_MAX_BYTES`].
    #[error("must be at most {EVENT_PAYLOAD_MAX_BYTES} bytes, is {0}; send long content as a blob")]
    TooLarge(usize),
    /// Holds `\u0000`.
    #[error("cannot contain the NUL character (\\u0000)")]
    Nul,
}

/// An event's payload: the bytes of a JSON object exactly as they were received. A clone shares them.
#[derive(Debug, Clone)]
pub struct EventPayload(Arc<RawValue>);

impl Serialize for EventPayload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EventPayload {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.into()))
    }
}

impl EventPayload {
    /// Checks and takes received bytes.
    pub fn new(raw: Box<RawValue>) -> Result<Self, PayloadError> {
        let text = raw.get();
        if text.len() > EVENT_PAYLOAD_MAX_BYTES {
            return Err(PayloadError::TooLarge(text.len()));
        }
        if !text.trim_start().starts_with('{') {
            return Err(PayloadError::NotAnObject);
        }
        if has_nul_escape(text) {
            return Err(PayloadError::Nul);
        }
        Ok(Self(raw.into()))
    }

    /// The payload of an event that the server writes itself.
    pub fn from_value(value: &serde_json::Value) -> Result<Self, PayloadError> {
        let text = value.to_string();
        Self::new(RawValue::from_string(text).map_err(|_| PayloadError::NotAnObject)?)
    }

    /// Takes text that was stored before; it was checked when it came in.
    pub fn from_stored(text: String) -> Result<Self, PayloadError> {
        RawValue::from_string(text).map(|raw| Self(raw.into())).map_err(|_| PayloadError::NotAnObject)
    }

    /// `{}`.
    pub fn empty() -> Self {
        Self(RawValue::from_string("{}".to_owned()).expect("an empty object is JSON").into())
    }

    /// The bytes as text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// SHA-256 of the bytes.
    pub fn hash(&self) -> Hash {
        chain::sha256(self.as_str().as_bytes())
    }

    /// The parsed object.
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(self.as_str()).unwrap_or(serde_json::Value::Null)
    }

    /// One top-level field, without parsing the rest into a tree.
    pub fn field<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        let fields: std::collections::HashMap<std::borrow::Cow<'_, str>, &RawValue> =
            serde_json::from_str(self.as_str()).ok()?;
        serde_json::from_str(fields.get(name)?.get()).ok()
    }
}

/// Finds `\u0000` in JSON text: an escape counts only after an even run of backslashes.
fn has_nul_escape(text: &str) -> bool {
    text.match_indices("\\u0000").any(|(at, _)| {
        let before = text.as_bytes()[..at].iter().rev().take_while(|b| **b == b'\\').count();
        before % 2 == 0
    })
}

/// The tree of files after an event, as the worker reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Git tree id.
    pub tree: String,
    /// The step before.
    #[serde(default)]
    pub parent: Option<String>,
    /// The event after which the files were like this; the one that carries the step when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
}

/// An event on its way into the log.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The sender's id for it, or one made by the server.
    pub event_id: String,
    /// What happened.
    pub event_type: String,
    /// Who says so.
    pub source: Source,
    /// The details.
    pub payload: EventPayload,
    /// The files after it.
    pub step: Option<Step>,
}

impl NewEvent {
    /// An event that the server itself writes.
    pub fn by_server(event_type: &str, payload: &serde_json::Value) -> Self {
        Self {
            event_id: crate::new_event_id(),
            event_type: event_type.to_owned(),
            source: Source::System,
            payload: EventPayload::from_value(payload).unwrap_or_else(|_| EventPayload::empty()),
            step: None,
        }
    }

    /// What this event is to the trajectory.
    pub fn class(&self) -> EventClass {
        if is_heartbeat(&self.event_type) {
            EventClass::Heartbeat
        } else if is_search_noise(&self.event_type, &self.payload) {
            EventClass::Noise
        } else {
            EventClass::Story
        }
    }
}

/// Search calls and their results: Grep always, Glob when it walks the tree.
fn is_search_noise(event_type: &str, payload: &EventPayload) -> bool {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(default, alias = "tool_name")]
        tool: Option<String>,
        #[serde(default, alias = "tool_input")]
        input: Option<serde_json::Value>,
    }
    if !matches!(event_type, "agent.tool_use" | "agent.tool_result") {
        return false;
    }
    let Ok(fields) = serde_json::from_str::<Fields>(payload.as_str()) else { return false };
    match fields.tool.as_deref() {
        Some("Grep") => true,
        Some("Glob") => fields
            .input
            .as_ref()
            .and_then(|input| input.get("pattern"))
            .and_then(serde_json::Value::as_str)
            .is_some_and(|pattern| pattern.contains("**")),
        _ => false,
    }
}

/// An event that is in the log.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    /// The sandbox whose log it is in.
    pub sandbox_id: SandboxId,
    /// Its place there, from 1, without gaps.
    pub seq: i64,
    /// Its id.
    pub event_id: String,
    /// What happened.
    pub event_type: String,
    /// Who said so.
    pub source: Source,
    /// The details.
    pub payload: EventPayload,
    /// When the server stored it.
    pub created_at: Timestamp,
    /// SHA-256 of the payload as it was received (also after a redaction).
    pub payload_hash: Hash,
    /// This event's link of the chain.
    pub hash: Hash,
}

impl StoredEvent {
    /// What the chain says this event's hash must be.
    pub fn expected_hash(&self, previous: &Hash) -> Hash {
        Link {
            seq: self.seq,
            event_id: &self.event_id,
            event_type: &self.event_type,
            source: self.source.as_str(),
            created_at_micros: self.created_at.as_microsecond(),
            payload_hash: &self.payload_hash,
        }
        .hash(previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(text: &str) -> Result<EventPayload, PayloadError> {
        EventPayload::new(RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn payload_must_be_an_object_without_nul() {
        assert!(payload(r#"{"a":1}"#).is_ok());
        assert_eq!(payload("[1]").unwrap_err(), PayloadError::NotAnObject);
        assert_eq!(payload("{\"a\":\"\\u0000\"}").unwrap_err(), PayloadError::Nul);
        assert!(payload("{\"a\":\"\\\\u0000\"}").is_ok(), "an escaped backslash is not a NUL");
    }

    #[test]
    fn server_words_are_reserved() {
        for word in ["gateway.model_call", "sandbox.state_changed", "FAILED", "terminated.idle", "Sandbox_x"]
        {
            assert!(reserved_for_server(word), "{word}");
        }
        for word in ["agent.failed", "spec.phase_failed", "custom"] {
            assert!(!reserved_for_server(word), "{word}");
        }
    }

    #[test]
    fn glob_is_noise_only_when_it_walks() {
        let event = |pattern: &str| NewEvent {
            event_id: "e".into(),
            event_type: "agent.tool_use".into(),
            source: Source::Agent,
            payload: payload(&format!(r#"{{"tool":"Glob","input":{{"pattern":"{pattern}"}}}}"#)).unwrap(),
            step: None,
        };
        assert_eq!(event("**/*.rs").class(), EventClass::Noise);
        assert_eq!(event("*.rs").class(), EventClass::Story);
    }
}
