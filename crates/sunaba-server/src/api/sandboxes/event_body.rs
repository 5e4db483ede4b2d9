//! Reads one event from a request: what it must hold, and who may say what.

use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use sunaba_types::{
    EventPayload, NewEvent, PayloadError, Source, Step, new_event_id, reserved_for_server,
    validate_event_type, validate_id,
};
use utoipa::ToSchema;

use crate::ApiError;
use crate::auth::Identity;
use crate::extract::Fields;

/// An event.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct EventBody {
    #[schema(min_length = 1, max_length = 100)]
    event_type: String,
    /// Kept byte for byte as it is received; at most 1 MiB. `{}` when absent.
    #[schema(value_type = Option<Object>)]
    event_data: Option<serde_json::Value>,
    /// `agent` (default) or `worker`; also `system`, `guardian` and `user` where the caller is no sandbox.
    source: Option<String>,
    /// The sender's own id for it: makes a retry harmless.
    #[schema(min_length = 1, max_length = 100)]
    event_id: Option<String>,
    /// The files after it: `tree`, `parent`.
    #[schema(value_type = Option<Object>)]
    step: Option<serde_json::Value>,
}

/// Reads an event that the caller may say.
pub(crate) fn read_event(mut fields: Fields<'_>, identity: &Identity) -> Result<NewEvent, ApiError> {
    fields.require("event_type");
    let event_type = fields.parsed("event_type", |text| validate_event_type(&text).map(|()| text));
    let source = fields.word("source", Source::ALL, Source::as_str).unwrap_or(Source::Agent);
    let event_id = fields.parsed("event_id", |text| validate_id(&text).map(|()| text));
    let step = read_step(&mut fields);
    if event_type.as_deref().is_some_and(reserved_for_server) {
        fields.fault("event_type", "is reserved for the server");
    }
    if !identity.may_speak_as(source) {
        fields.fault("source", "cannot be used with a sandbox's token; use agent or worker");
    }
    let payload = match fields.raw("event_data").map(read_payload) {
        None => Some(EventPayload::empty()),
        Some(Ok(payload)) => Some(payload),
        Some(Err(PayloadError::TooLarge(size))) => return Err(too_large(size)),
        Some(Err(error)) => {
            fields.fault("event_data", error.to_string());
            None
        }
    };
    fields.finish()?;
    let (Some(event_type), Some(payload)) = (event_type, payload) else { return Err(ApiError::internal()) };
    Ok(NewEvent { event_id: event_id.unwrap_or_else(new_event_id), event_type, source, payload, step })
}

fn read_payload(raw: &RawValue) -> Result<EventPayload, PayloadError> {
    EventPayload::new(raw.to_owned())
}

fn too_large(size: usize) -> ApiError {
    let detail = format!("event_data {}", PayloadError::TooLarge(size));
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "event_too_large", detail)
}

fn read_step(fields: &mut Fields<'_>) -> Option<Step> {
    let step: Step = fields.optional("step", "an object with a tree")?;
    let is_object_id =
        |id: &str| (40..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_object_id(&step.tree) || !step.parent.as_deref().is_none_or(is_object_id) {
        fields.fault("step", "tree and parent must be git object ids");
        return None;
    }
    let is_event_id = |id: &str| (1..=100).contains(&id.chars().count()) && !id.contains('\0');
    if !step.event_id.as_deref().is_none_or(is_event_id) {
        fields.fault("step", "event_id must be an event's id");
        return None;
    }
    Some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NewEvent, ApiError> {
        read_event(Fields::of_body(text.as_bytes())?, &Identity::open())
    }

    #[test]
    fn the_payload_is_kept_to_the_byte() {
        let event = read(r#"{"event_type":"a.b","event_data":{ "b" : 1.50, "a":"\u00e9" }}"#).unwrap();
        assert_eq!(event.payload.as_str(), r#"{ "b" : 1.50, "a":"\u00e9" }"#);
    }

    #[test]
    fn what_only_the_server_says_is_refused() {
        for event_type in ["sandbox.state_changed", "gateway.git", "FAILED"] {
            let error = read(&format!(r#"{{"event_type":"{event_type}"}}"#)).unwrap_err();
            assert_eq!(error.status(), StatusCode::UNPROCESSABLE_ENTITY, "{event_type}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_values_give_an_event_or_a_client_error(
            event_type in ".{0,120}", source in "agent|worker|liar|", data in "\\{\\}|\\[\\]|1|null|\"x\"", id in ".{0,110}",
        ) {
            let text = format!(
                r#"{{"event_type":{},"source":{},"event_data":{data},"event_id":{}}}"#,
                serde_json::json!(event_type), serde_json::json!(source), serde_json::json!(id),
            );
            match read(&text) {
                Ok(event) => assert!(event.event_type.chars().count() <= 100 && event.event_id.len() <= 100),
                Err(error) => assert!(error.status().is_client_error()),
            }
        }
    }
}
