//! A published entry as it goes out on the WebSocket.

use axum::extract::ws::Utf8Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use sunaba_store::{FeedEntry, PublishedPayload};
use sunaba_types::{ProjectId, SandboxId, Timestamp, topic};

/// An entry, written once for all subscribers.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) position: i64,
    pub(crate) project_id: Option<ProjectId>,
    pub(crate) sandbox_id: Option<SandboxId>,
    /// The published name in the form in which names are compared.
    pub(crate) plain_type: String,
    pub(crate) entity_type: String,
    pub(crate) entity_id: String,
    /// The JSON text, shared by every subscriber that is sent it.
    pub(crate) text: Utf8Bytes,
}

#[derive(Serialize)]
struct Wire<'a> {
    event_type: &'a str,
    entity_type: &'a str,
    entity_id: &'a str,
    payload: &'a RawValue,
    id: &'a str,
    seq: Option<i64>,
    position: i64,
    timestamp: Timestamp,
}

impl Frame {
    pub(crate) fn of(entry: &FeedEntry) -> Self {
        let payload = payload_of(&entry.payload);
        let wire = Wire {
            event_type: &entry.event_type,
            entity_type: &entry.entity_type,
            entity_id: &entry.entity_id,
            payload: &payload,
            id: &entry.id,
            seq: entry.seq,
            position: entry.position,
            timestamp: entry.created_at,
        };
        let text = serde_json::to_string(&wire).expect("plain fields and checked JSON can be written");
        Self {
            position: entry.position,
            project_id: entry.project_id.clone(),
            sandbox_id: entry.sandbox_id.clone(),
            plain_type: topic::normalise(&entry.event_type),
            entity_type: entry.entity_type.clone(),
            entity_id: entry.entity_id.clone(),
            text: text.into(),
        }
    }

    /// Roughly what keeping it costs.
    pub(crate) fn size_bytes(&self) -> usize {
        self.text.len() + 256
    }
}

/// The published payload: an event's data with `source` and `original_event_type` added.
fn payload_of(payload: &PublishedPayload) -> Box<RawValue> {
    let text = match payload {
        PublishedPayload::Notice(payload) => payload.as_str().to_owned(),
        PublishedPayload::Event { payload, source, event_type } => {
            with_fields(payload.as_str(), &[("source", source.as_str()), ("original_event_type", event_type)])
        }
    };
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::from_string("{}".to_owned()).expect("is JSON"))
}

/// Adds text fields to the text of a JSON object, without parsing it where that is safe.
fn with_fields(object: &str, fields: &[(&str, &str)]) -> String {
    if fields.iter().any(|(name, _)| object.contains(name)) || object.contains("\\u") {
        // A field of that name may be there already and must be replaced, not doubled.
        let parsed: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(object);
        if let Ok(mut map) = parsed {
            for (name, value) in fields {
                map.insert((*name).to_owned(), serde_json::Value::from(*value));
            }
            return serde_json::Value::Object(map).to_string();
        }
    }
    let Some(body) = object.trim_end().strip_suffix('}') else { return object.to_owned() };
    let mut text = body.to_owned();
    let mut empty = body.trim() == "{";
    for (name, value) in fields {
        if !std::mem::take(&mut empty) {
            text.push(',');
        }
        let value = serde_json::to_string(value).unwrap_or_default();
        text.push_str(&format!("\"{name}\":{value}"));
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(object: &str, expected: serde_json::Value) {
        let text = with_fields(object, &[("source", "agent"), ("original_event_type", "a\"b")]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value, expected, "{text}");
        assert_eq!(text.matches("\"source\"").count(), 1, "{text}");
    }

    #[test]
    fn fields_are_added_once() {
        use serde_json::json;
        check("{}", json!({"source": "agent", "original_event_type": "a\"b"}));
        check(" { } ", json!({"source": "agent", "original_event_type": "a\"b"}));
        check("{\"x\":1}", json!({"x": 1, "source": "agent", "original_event_type": "a\"b"}));
        check("{\"source\":\"liar\"}", json!({"source": "agent", "original_event_type": "a\"b"}));
        check("{\"\\u0073ource\":\"liar\"}", json!({"source": "agent", "original_event_type": "a\"b"}));
    }
}
