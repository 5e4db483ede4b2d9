//! Google's dialect. The model, and whether the answer is streamed, stand in the address and not in the request.

mod read;
mod write;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Detail, Dialect, Vendor};
use crate::script::{Conversation, Reply};
use crate::usage::Seen;

/// Google's dialect.
#[derive(Debug)]
pub(crate) struct Google;

impl Dialect for Google {
    fn name(&self) -> &'static str {
        "google"
    }

    fn vendor(&self) -> Vendor {
        Vendor::Google
    }

    fn output_fields(&self) -> &'static [&'static str] {
        &["generationConfig.maxOutputTokens"]
    }

    fn read(&self, body: &[u8], detail: Detail) -> Result<Conversation, String> {
        read::request(body, detail)
    }

    fn error(&self, status: StatusCode, kind: &str, message: &str) -> Value {
        let code = status.as_u16();
        json!({"error": {"code": code, "message": message, "status": status_word(code, kind)}})
    }

    fn whole(&self, model: &str, reply: &Reply) -> Value {
        write::whole(model, reply)
    }

    fn stream(&self, asked: &Conversation, reply: &Reply) -> Vec<Bytes> {
        write::stream(&asked.model, reply)
    }

    fn look(&self, value: &Value, seen: &mut Seen) {
        take_usage(&value["usageMetadata"], seen);
        // Every piece tells the usage so far; it is that of the whole once the answer says why it ended.
        let has_ended = |candidate: &Value| candidate["finishReason"].is_string();
        let candidates = value["candidates"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_blocked = value["promptFeedback"]["blockReason"].is_string();
        seen.is_final |= seen.has_input && (is_blocked || candidates.iter().any(has_ended));
        if value["error"].is_object() {
            seen.take_error(&value["error"]);
        }
    }

    fn token_count(&self, tokens: u64) -> Value {
        json!({"totalTokens": tokens})
    }

    fn counted(&self, value: &Value) -> Option<u64> {
        value["totalTokens"].as_u64()
    }
}

/// Takes over the counts: what the cache had a part in is part of the prompt, and thoughts are output.
fn take_usage(usage: &Value, seen: &mut Seen) {
    let count = |name: &str| usage[name].as_u64();
    if let Some(prompt) = count("promptTokenCount") {
        let cached = count("cachedContentTokenCount").unwrap_or(0).min(prompt);
        let of_tools = count("toolUsePromptTokenCount").unwrap_or(0);
        seen.usage.input_tokens = (prompt - cached).saturating_add(of_tools);
        seen.usage.cache_read_tokens = cached;
        seen.has_input = true;
    }
    let output = [count("candidatesTokenCount"), count("thoughtsTokenCount")];
    if output.iter().any(Option::is_some) {
        let said = output.into_iter().flatten().fold(0, u64::saturating_add);
        seen.usage.output_tokens = seen.usage.output_tokens.max(said);
    }
}

/// The vendor's word for an error. A script may use it directly.
fn status_word(code: u16, kind: &str) -> &str {
    let is_word = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    match code {
        _ if is_word => kind,
        _ if kind == "budget_exhausted" => "FAILED_PRECONDITION",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        501 => "UNIMPLEMENTED",
        504 => "DEADLINE_EXCEEDED",
        502 | 503 | 529 => "UNAVAILABLE",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_vendors_words() {
        let word = |status: u16, kind: &str| {
            let error = Google.error(StatusCode::from_u16(status).unwrap(), kind, "m");
            assert_eq!((&error["error"]["code"], &error["error"]["message"]), (&json!(status), &json!("m")));
            error["error"]["status"].as_str().unwrap().to_owned()
        };
        assert_eq!(word(429, "rate_limit_error"), "RESOURCE_EXHAUSTED");
        assert_eq!(word(400, "budget_exhausted"), "FAILED_PRECONDITION");
        assert_eq!(word(413, "request_too_large"), "INVALID_ARGUMENT");
        assert_eq!(word(500, "api_error"), "INTERNAL");
        assert_eq!(word(503, "overloaded_error"), "UNAVAILABLE");
        assert_eq!(word(400, "OUT_OF_RANGE"), "OUT_OF_RANGE");
    }

    #[test]
    fn counts_are_final_once_the_answer_says_why_it_ended() {
        let mut seen = Seen::default();
        Google.look(&json!({"candidates": [{}], "usageMetadata": {"promptTokenCount": 15}}), &mut seen);
        assert!(seen.has_input && !seen.is_final);
        let end = json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {
            "promptTokenCount": 15, "cachedContentTokenCount": 3, "candidatesTokenCount": 30,
            "thoughtsTokenCount": 10, "toolUsePromptTokenCount": 2}});
        Google.look(&end, &mut seen);
        assert!(seen.is_final);
        let usage = seen.usage;
        assert_eq!((usage.input_tokens, usage.cache_read_tokens, usage.output_tokens), (14, 3, 40));
        let mut blocked = Seen::default();
        let body =
            json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}});
        Google.look(&body, &mut blocked);
        assert!(blocked.is_final && blocked.usage.output_tokens == 0);
    }
}
