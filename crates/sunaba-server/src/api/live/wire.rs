//! What is said on the WebSocket besides published events.

use serde::Deserialize;
use serde_json::json;

use crate::Filters;

/// A frame from the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientFrame {
    /// Shows the token.
    Auth(String),
    /// Replaces the filters that it names.
    Subscribe(Change),
    /// Asks for a sign of life.
    Ping,
    /// Something this server does not know.
    Unknown,
}

/// New filters; an absent one stays as it is.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Change {
    event_types: Option<Vec<String>>,
    entity_types: Option<Vec<String>>,
    entity_ids: Option<Vec<String>>,
}

const LIST_MAX: usize = 1000;

impl Change {
    pub(super) fn apply(self, filters: &mut Filters) {
        if let Some(list) = self.event_types {
            filters.set_event_types(list);
        }
        if let Some(list) = self.entity_types {
            filters.entity_types = list;
        }
        if let Some(list) = self.entity_ids {
            filters.entity_ids = list;
        }
    }

    fn is_bounded(&self) -> bool {
        [&self.event_types, &self.entity_types, &self.entity_ids]
            .into_iter()
            .flatten()
            .all(|list| list.len() <= LIST_MAX)
    }
}

/// Reads a frame; `None` if it is not a JSON object with the right types.
pub(super) fn read(text: &str) -> Option<ClientFrame> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let object = value.as_object()?;
    let kind = object.get("type").and_then(serde_json::Value::as_str);
    if let Some(token) = object.get("token").and_then(serde_json::Value::as_str)
        && matches!(kind, None | Some("auth"))
    {
        return Some(ClientFrame::Auth(token.to_owned()));
    }
    match kind {
        Some("ping") => Some(ClientFrame::Ping),
        Some("subscribe") => {
            let change: Change = serde_json::from_value(value).ok()?;
            change.is_bounded().then_some(ClientFrame::Subscribe(change))
        }
        _ => Some(ClientFrame::Unknown),
    }
}

pub(super) fn subscribed(filters: &Filters, position: i64) -> String {
    json!({"status": "subscribed", "filters": filters, "position": position}).to_string()
}

pub(super) fn error(text: &str) -> String {
    json!({"error": text}).to_string()
}

pub(super) fn overflow(position: i64) -> String {
    json!({"type": "overflow", "resume_after": position}).to_string()
}

pub(super) const PING: &str = r#"{"type":"ping"}"#;
pub(super) const PONG: &str = r#"{"type":"pong"}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_filters_stay_and_empty_ones_clear() {
        let mut filters = Filters::new(vec!["a".into()], vec!["task".into()], vec![]);
        let Some(ClientFrame::Subscribe(change)) =
            read(r#"{"type":"subscribe","event_types":[],"entity_ids":["x"]}"#)
        else {
            panic!("a subscription")
        };
        change.apply(&mut filters);
        assert_eq!(filters, Filters::new(vec![], vec!["task".into()], vec!["x".into()]));
    }

    #[test]
    fn what_is_not_a_frame_is_no_frame() {
        for text in ["", "{", "[]", "1", r#"{"type":"subscribe","event_types":"x"}"#] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(r#"{"type":"dance"}"#), Some(ClientFrame::Unknown));
        assert_eq!(read(r#"{"token":"t"}"#), Some(ClientFrame::Auth("t".into())));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            let _ = read(&text);
        }
    }
}
