//! The Responses dialect.

mod read;
mod write;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::super::{Detail, Dialect, Vendor};
use super::{error, take_usage};
use crate::script::{Conversation, Reply};
use crate::usage::Seen;

/// The Responses dialect.
#[derive(Debug)]
pub(crate) struct Responses;

impl Dialect for Responses {
    fn name(&self) -> &'static str {
        "openai_responses"
    }

    fn vendor(&self) -> Vendor {
        Vendor::OpenAi
    }

    fn output_fields(&self) -> &'static [&'static str] {
        &["max_output_tokens"]
    }

    fn read(&self, body: &[u8], detail: Detail) -> Result<Conversation, String> {
        read::request(body, detail)
    }

    fn error(&self, _: StatusCode, kind: &str, message: &str) -> Value {
        error(kind, message)
    }

    fn whole(&self, model: &str, reply: &Reply) -> Value {
        write::whole(model, reply)
    }

    fn stream(&self, asked: &Conversation, reply: &Reply) -> Vec<Bytes> {
        write::stream(&asked.model, reply)
    }

    fn look(&self, value: &Value, seen: &mut Seen) {
        let response = if value["object"] == "response" { value } else { &value["response"] };
        if value["type"] == "error" {
            // In a stream the words stand in the event itself.
            let said = if value["error"].is_object() { &value["error"] } else { value };
            seen.take_error(said);
        } else if response["error"].is_object() {
            seen.take_error(&response["error"]);
        } else if response.is_null() && value["error"].is_object() {
            seen.take_error(&value["error"]);
        }
        let names = ["input_tokens", "input_tokens_details", "output_tokens"];
        take_usage(response.get("usage").unwrap_or(&json!(null)), names, seen);
    }
}
