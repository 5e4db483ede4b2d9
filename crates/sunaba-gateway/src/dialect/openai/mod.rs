//! What OpenAI's two dialects share.

mod chat;
mod responses;

use serde_json::{Value, json};

use super::add_line;
use crate::json::Lazy;
use crate::usage::Seen;

pub(crate) use chat::Chat;
pub(crate) use responses::Responses;

/// How runtimes begin the messages that they send in the user's name and that no person said.
const ADDED_CONTEXT: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "# AGENTS.md instructions",
];

/// An error as both dialects word it. Clients go by the code where there is one.
fn error(kind: &str, message: &str) -> Value {
    let (kind, code) = match kind {
        "rate_limit_error" => (kind, Some("rate_limit_exceeded")),
        "not_found_error" => ("invalid_request_error", Some("unknown_url")),
        "budget_exhausted" => ("invalid_request_error", Some("billing_hard_limit_reached")),
        "api_error" => ("server_error", None),
        kind => (kind, None),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// The words of a text or of a list of parts.
fn words(content: Lazy<'_>) -> Result<String, String> {
    if let Some(text) = content.text() {
        return Ok(text.into_owned());
    }
    let mut said = String::new();
    content.each(|part| {
        // `text`, `input_text` and `output_text` alike; a refusal has words of its own.
        let [text, refusal] = part.pick(["text", "refusal"])?;
        if let Some(text) = text.text().or_else(|| refusal.text()) {
            add_line(&mut said, &text);
        }
        Ok(())
    })?;
    Ok(said)
}

fn is_added_context(text: &str) -> bool {
    ADDED_CONTEXT.iter().any(|start| text.trim_start().starts_with(start))
}

/// An id with the vendor's usual letters before it.
fn fresh_id(prefix: &str) -> String {
    format!("{prefix}_{}", uuid::Uuid::now_v7().simple())
}

fn call_id(id: &str) -> String {
    format!("call_{id}")
}

/// Now, in seconds. An id of version 7 is made of the time.
fn now_seconds() -> u64 {
    uuid::Uuid::now_v7().get_timestamp().map_or(0, |at| at.to_unix().0)
}

/// Takes over a `usage` object: what the cache had a part in is part of the input there.
fn take_usage(usage: &Value, names: [&str; 3], seen: &mut Seen) {
    let [input, details, output] = names;
    let (Some(all), Some(output)) = (usage[input].as_u64(), usage[output].as_u64()) else { return };
    let cached = usage[details]["cached_tokens"].as_u64().unwrap_or(0).min(all);
    let written = usage[details]["cache_write_tokens"].as_u64().unwrap_or(0).min(all - cached);
    seen.usage.input_tokens = all - cached - written;
    seen.usage.cache_write_tokens = written;
    seen.usage.cache_read_tokens = cached;
    seen.usage.output_tokens = output;
    seen.has_input = true;
    seen.is_final = true;
}
