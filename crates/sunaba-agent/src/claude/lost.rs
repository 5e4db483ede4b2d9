//! What can still be told of a line that cannot be read.

use serde::Deserialize;

/// What somebody waits for, in a line that could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lost {
    Result,
    Request { request_id: String },
    Nothing,
}

impl Lost {
    /// Of a line as it came.
    pub(super) fn of(line: &[u8]) -> Self {
        match serde_json::from_slice(line) {
            Ok(head) => Self::in_head(head),
            Err(_) => Self::Nothing,
        }
    }

    /// Of a line of which only the beginning and the end are known. A quote inside of something that was said has a
    /// backslash before it, so that what is found is the CLI's own.
    pub(super) fn of_pieces(pieces: &str) -> Self {
        let value = |name: &str| {
            let (_, after) = pieces.split_once(&format!("\"{name}\":\""))?;
            Some(after.split('"').next()?.to_owned())
        };
        if pieces.contains("\"type\":\"result\"") {
            Self::Result
        } else if pieces.contains("\"type\":\"control_request\"") {
            value("request_id").map_or(Self::Nothing, |request_id| Self::Request { request_id })
        } else {
            Self::Nothing
        }
    }

    fn in_head(head: Head) -> Self {
        match (head.kind.as_str(), head.request_id) {
            ("result", _) => Self::Result,
            ("control_request", Some(request_id)) => Self::Request { request_id },
            _ => Self::Nothing,
        }
    }
}

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    request_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_waits_for_is_found_and_nothing_else() {
        let request = Lost::Request { request_id: "q1".to_owned() };
        assert_eq!(Lost::of(br#"{"subtype":7,"type":"result"}"#), Lost::Result);
        assert_eq!(Lost::of(br#"{"request_id":"q1","type":"control_request","request":1}"#), request);
        assert_eq!(Lost::of(br#"{"type":"assistant","message":"result"}"#), Lost::Nothing);
        assert_eq!(Lost::of(b"result"), Lost::Nothing);
        assert_eq!(Lost::of_pieces(r#"{"type":"control_request","request_id":"q1","request":{"in"#), request);
        assert_eq!(Lost::of_pieces(r#"xxx","stop_reason":"end_turn","type":"result"}"#), Lost::Result);
        let quoted = r#"{"type":"user","message":"{\"type\":\"result\"}"#;
        assert_eq!(Lost::of_pieces(quoted), Lost::Nothing);
    }
}
