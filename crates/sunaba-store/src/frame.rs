//! A published entry as it goes out: the same text on the WebSocket and on Redis.

use serde::Serialize;
use serde_json::value::RawValue;
use sunaba_types::Timestamp;

use crate::{FeedEntry, PublishedPayload};

#[derive(Serialize)]
struct Wire<'a> {
    event_type: &'a str,
    entity_type: &'a str,
    entity_id: &'a str,
    payload: Option<&'a RawValue>,
    id: &'a str,
    seq: Option<i64>,
    position: i64,
    timestamp: Timestamp,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    payload_omitted: bool,
}

impl FeedEntry {
    /// The JSON text that subscribers are sent.
    pub fn frame(&self) -> String {
        self.wire(Some(&payload_of(&self.payload)))
    }

    /// The same for those who cannot be sent a large one: `payload` is null and `payload_omitted` true.
    pub fn frame_without_payload(&self) -> String {
        self.wire(None)
    }

    fn wire(&self, payload: Option<&RawValue>) -> String {
        let wire = Wire {
            event_type: &self.event_type,
            entity_type: &self.entity_type,
            entity_id: &self.entity_id,
            payload,
            id: &self.id,
            seq: self.seq,
            position: self.position,
            timestamp: self.created_at,
            payload_omitted: payload.is_none(),
        };
        serde_json::to_string(&wire).expect("plain fields and checked JSON can be written")
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

    #[test]
    fn a_frame_without_payload_says_so_and_is_else_the_same() {
        let entry = FeedEntry {
            position: 7,
            project_id: None,
            event_type: "TASK_CREATED".to_owned(),
            entity_type: "task".into(),
            entity_id: "t1".to_owned(),
            sandbox_id: None,
            id: "feed-7".to_owned(),
            seq: None,
            payload: PublishedPayload::Notice(
                sunaba_types::EventPayload::from_value(&serde_json::json!({"x": 1})).unwrap(),
            ),
            created_at: Timestamp::UNIX_EPOCH,
        };
        let mut whole: serde_json::Value = serde_json::from_str(&entry.frame()).unwrap();
        assert_eq!(whole["payload"], serde_json::json!({"x": 1}));
        assert!(whole.get("payload_omitted").is_none());
        whole["payload"] = serde_json::Value::Null;
        whole["payload_omitted"] = true.into();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&entry.frame_without_payload()).unwrap(), whole);
    }
}
