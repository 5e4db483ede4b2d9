//! What a tool call is about: the one argument worth showing.

use serde_json::Value;

use super::clean::clean_line;
use super::words::shorten;

/// Longest argument shown.
const ARGUMENT_MAX_CHARS: usize = 100;
/// The arguments that say what a call is about, the best first.
const TELLING: &[&str] =
    &["command", "file_path", "path", "pattern", "query", "url", "skill", "description", "prompt"];

/// A tool call in one line, without its name.
pub(super) fn main_argument(input: &Value) -> String {
    let Some(fields) = input.as_object() else {
        return text_of(input);
    };
    if let Some(list) = fields.get("todos").and_then(Value::as_array) {
        return format!("{} entries", list.len());
    }
    let telling = TELLING.iter().find_map(|name| fields.get(*name).filter(|value| !value.is_null()));
    match telling.or_else(|| fields.values().next()) {
        Some(value) => text_of(value),
        None => String::new(),
    }
}

fn text_of(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    shorten(&clean_line(text.trim().trim_start_matches("/workspace/")), ARGUMENT_MAX_CHARS)
}

/// The text of a tool's answer, whichever way a worker wraps it.
pub(super) fn response_text(response: &Value) -> String {
    match response {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(response_text).collect::<Vec<_>>().join("\n"),
        Value::Object(fields) => ["text", "content", "stdout", "output", "error", "message"]
            .iter()
            .find_map(|name| fields.get(*name))
            .map_or_else(|| response.to_string(), response_text),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_telling_argument_is_shown() {
        assert_eq!(main_argument(&json!({"timeout": 5, "command": "sh test.sh"})), "sh test.sh");
        assert_eq!(main_argument(&json!({"file_path": "/workspace/a.sh", "content": "x"})), "a.sh");
        assert_eq!(main_argument(&json!({"todos": [1, 2]})), "2 entries");
        assert_eq!(main_argument(&json!({"command": "a\nb\x1b"})), "a⏎b␛");
        assert_eq!(main_argument(&json!({})), "");
    }

    #[test]
    fn answers_are_found_in_their_wrapping() {
        assert_eq!(
            response_text(&json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
            "a\nb"
        );
        assert_eq!(response_text(&json!({"content": "x"})), "x");
    }
}
