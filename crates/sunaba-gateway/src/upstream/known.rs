//! Which fields of a request are passed on.
//!
//! A reservation bounds what a call costs only as far as every field that is sent is known. A field that is not is
//! left out and named in the record: vendors add options all the time, most of them hints that a request is
//! well served without. Those that would change who answers, or what happens outside, are refused by name.

use serde_json::{Value, json};

use super::fields::Fields;
use super::google;
use crate::dialect::{Dialect, Vendor};

const MESSAGES: &[&str] = &[
    "model",
    "messages",
    "system",
    "max_tokens",
    "stream",
    "stop_sequences",
    "temperature",
    "top_p",
    "top_k",
    "tools",
    "tool_choice",
    "thinking",
    "metadata",
    "service_tier",
    "speed",
    "inference_geo",
    "cache_control",
    "context_management",
    "output_config",
    "output_format",
];
const CHAT: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "n",
    "temperature",
    "top_p",
    "stop",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "seed",
    "user",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "response_format",
    "reasoning_effort",
    "verbosity",
    "metadata",
    "store",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
];
const RESPONSES: &[&str] = &[
    "model",
    "input",
    "instructions",
    "max_output_tokens",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tool_calls",
    "reasoning",
    "store",
    "stream",
    "stream_options",
    "include",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "text",
    "temperature",
    "top_p",
    "top_logprobs",
    "truncation",
    "metadata",
    "user",
    "safety_identifier",
    "client_metadata",
];

const GENERATE_CONTENT: &[&str] =
    &["contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig"];

/// Fields without which a request would mean something else, and why they are not served.
const REFUSED: &[(&str, &str)] = &[
    ("mcp_servers", "would run outside the sandbox"),
    ("container", "would run outside the sandbox"),
    ("web_search_options", "would run outside the sandbox"),
    ("fallbacks", "would let another model answer, at another price"),
    ("models", "would let another model answer, at another price"),
    ("audio", "has no price here"),
    ("cachedContent", "stands for input that the gateway does not see"),
    ("generateContentRequest", "is not served here; its contents are, by themselves"),
];

/// Options that the price table knows no price for, with the values that cost the usual.
const PRICED_OTHERWISE: &[(&str, &[&str])] = &[
    ("service_tier", &["auto", "default", "flex", "standard_only", "standard"]),
    ("speed", &["standard"]),
    ("inference_geo", &["global", "not_available"]),
];

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Passed,
    LeftOut,
    /// With the reason.
    Refused(&'static str),
}

/// What becomes of a field of a dialect.
pub(super) fn fate(dialect: &dyn Dialect, name: &str) -> Fate {
    let passed = match dialect.name() {
        "anthropic" => MESSAGES,
        "openai_chat" => CHAT,
        "google" => GENERATE_CONTENT,
        _ => RESPONSES,
    };
    if passed.contains(&name) {
        return Fate::Passed;
    }
    let refused = REFUSED.iter().find(|(known, _)| *known == name);
    refused.map_or(Fate::LeftOut, |(_, why)| Fate::Refused(why))
}

/// A field's name in the one spelling that is looked for: Google takes two.
pub(super) fn spelled(dialect: &dyn Dialect, name: String) -> String {
    if dialect.vendor() == Vendor::Google { google::camel(&name) } else { name }
}

/// Refuses options that change the price, and leaves out those that make the vendor sample more than once.
pub(super) fn check_options(vendor: Vendor, fields: &mut Fields) -> Result<(), String> {
    if vendor == Vendor::Google {
        return google::check_options(fields);
    }
    for (name, usual) in PRICED_OTHERWISE {
        let value = fields.small(name)?;
        if !value.is_null() && !value.as_str().is_some_and(|value| usual.contains(&value)) {
            return Err(format!("{name}: {value} has no price here; leave it out"));
        }
    }
    keep_plain_edits(fields)
}

/// Of the ways to shorten a conversation only those that clear parts of it: a summary is made by the model, with a
/// pass of its own over all of the input.
fn keep_plain_edits(fields: &mut Fields) -> Result<(), String> {
    const NAME: &str = "context_management";
    let asked = fields.small(NAME)?;
    if asked.is_null() {
        return Ok(());
    }
    let edits = asked["edits"].as_array().cloned().unwrap_or_default();
    let kind = |edit: &Value| edit["type"].as_str().unwrap_or("unnamed").to_owned();
    let (kept, left_out): (Vec<Value>, Vec<Value>) =
        edits.into_iter().partition(|edit| kind(edit).starts_with("clear_"));
    for edit in &left_out {
        fields.note_left_out(&format!("{NAME}.{}", kind(edit)));
    }
    if kept.is_empty() {
        fields.remove(NAME);
    } else if !left_out.is_empty() || asked.as_object().is_none_or(|asked| asked.len() > 1) {
        fields.set(NAME, &json!({"edits": kept}));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::dialect::{Anthropic, Chat, Responses};

    fn checked(dialect: &dyn Dialect, request: &Value) -> Result<Fields, String> {
        let mut fields = Fields::parse(dialect, &Bytes::from(request.to_string()))?;
        check_options(dialect.vendor(), &mut fields).map(|()| fields)
    }

    #[test]
    fn options_without_a_price_are_refused() {
        for request in [
            json!({"service_tier": "priority"}),
            json!({"speed": "fast"}),
            json!({"inference_geo": "us"}),
            json!({"mcp_servers": []}),
            json!({"fallbacks": [{"model": "claude-opus-4-1"}]}),
        ] {
            let (name, _) = request.as_object().unwrap().iter().next().unwrap();
            let words = checked(&Anthropic, &request).unwrap_err();
            assert!(words.starts_with(name) && words.contains("leave it out"), "{words}");
        }
        checked(&Anthropic, &json!({"service_tier": "auto", "speed": null, "fallbacks": null})).unwrap();
        assert!(checked(&Chat, &json!({"web_search_options": {}})).is_err());
    }

    #[test]
    fn what_is_not_known_is_left_out_and_named() {
        let request = json!({"model": "m", "sample_again": true, "nothing": null});
        let fields = checked(&Anthropic, &request).unwrap();
        assert_eq!(
            (fields.to_bytes(), fields.left_out()),
            (r#"{"model":"m"}"#.into(), &["sample_again".to_owned()][..])
        );
        let compacted = json!({"input": "x", "context_management": [{"type": "compaction"}]});
        assert_eq!(checked(&Responses, &compacted).unwrap().left_out(), ["context_management"]);
    }

    #[test]
    fn what_the_usual_clients_send_passes_byte_for_byte() {
        let claude = json!({
            "model": "m", "messages": [], "system": [], "tools": [], "tool_choice": {"type": "auto"}, "max_tokens": 9,
            "metadata": {"user_id": "u"}, "thinking": {"type": "adaptive"}, "temperature": 1, "stream": true,
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "high"}, "stop_sequences": [], "cache_control": {"type": "ephemeral"},
        });
        let codex = json!({
            "model": "m", "instructions": "x", "input": [], "tools": [], "tool_choice": "auto", "parallel_tool_calls": true,
            "reasoning": {"effort": "medium", "summary": "auto"}, "store": false, "stream": true,
            "include": ["reasoning.encrypted_content"], "service_tier": "auto", "prompt_cache_key": "k",
            "text": {"verbosity": "low"}, "client_metadata": {},
        });
        let chat = json!({
            "model": "m", "messages": [], "tools": [], "tool_choice": "auto", "stream": true, "temperature": 0,
            "stream_options": {"include_usage": true}, "max_tokens": 9, "top_p": 1, "reasoning_effort": "low",
        });
        let cases: [(&dyn Dialect, Value); 3] = [(&Anthropic, claude), (&Responses, codex), (&Chat, chat)];
        for (dialect, request) in cases {
            let fields = checked(dialect, &request).unwrap();
            assert_eq!((fields.to_bytes(), fields.is_changed()), (request.to_string().into(), false));
        }
    }

    #[test]
    fn a_summary_by_the_model_is_left_out_of_the_ways_to_shorten() {
        let clear = json!({"type": "clear_tool_uses_20250919"});
        let request = json!({"context_management": {"edits": [clear, {"type": "compact_20260112"}]}});
        let fields = checked(&Anthropic, &request).unwrap();
        assert_eq!(fields.to_bytes(), json!({"context_management": {"edits": [clear]}}).to_string());
        assert_eq!(fields.left_out(), ["context_management.compact_20260112"]);
        let only = json!({"model": "m", "context_management": {"edits": [{"type": "compact_20260112"}]}});
        assert_eq!(checked(&Anthropic, &only).unwrap().to_bytes(), r#"{"model":"m"}"#);
    }
}
