//! An agent's tools in the words of the contract, as far as it says what they are.

use serde_json::{Map, Value};

use super::wire::ToolNews;
use crate::text::clip;

const NAME_MAX_CHARS: usize = 100;
/// Tools that agents call by a name of their own.
const NAMES: [(&str, &str); 10] = [
    ("agent", "Task"),
    ("bash", "Bash"),
    ("edit", "Edit"),
    ("glob", "Glob"),
    ("grep", "Grep"),
    ("read", "Read"),
    ("skill", "Skill"),
    ("task", "Task"),
    ("webfetch", "WebFetch"),
    ("write", "Write"),
];
/// What an agent adds to a tool's arguments and no model wrote.
const ADDED: [&str; 9] = [
    "auto_approved",
    "available_decisions",
    "call_id",
    "parsed_cmd",
    "process_id",
    "proposed_execpolicy_amendment",
    "source",
    "started_at_ms",
    "turn_id",
];
/// Under which names an agent tells what came out.
const RESULTS: [&str; 5] = ["formatted_output", "aggregated_output", "output", "stdout", "error"];

/// The tool's name: the agent's own where it gives one, else by its kind.
pub(super) fn tool_name(news: &ToolNews) -> String {
    let own =
        news.meta.as_ref().and_then(|meta| meta.pointer("/claudeCode/toolName")).and_then(Value::as_str);
    let title = news.title.as_deref().unwrap_or_default();
    let known = |name: &str| {
        let name = name.to_ascii_lowercase();
        NAMES.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| (*ours).to_owned())
    };
    if let Some(own) = own {
        return known(own).unwrap_or_else(|| clip(own, NAME_MAX_CHARS));
    }
    known(title).unwrap_or_else(|| match news.kind.as_deref().unwrap_or_default() {
        "execute" => "Bash".to_owned(),
        "read" => "Read".to_owned(),
        "edit" | "delete" | "move" => "Edit".to_owned(),
        "search" => "Grep".to_owned(),
        "fetch" => "WebFetch".to_owned(),
        _ if title.is_empty() => "Tool".to_owned(),
        _ => clip(title, NAME_MAX_CHARS),
    })
}

/// Whether this says more of a tool's arguments than what is known.
pub(super) fn has_more(input: &Value, known: &Value) -> bool {
    let size = |value: &Value| value.as_object().map_or(usize::from(!value.is_null()), Map::len);
    size(&self::input(input)) > size(known)
}

/// Whether arguments say anything: where a command is to run is nothing without the command.
pub(super) fn says_something(input: &Value) -> bool {
    input.as_object().map_or(!input.is_null(), |fields| fields.keys().any(|name| name != "cwd"))
}

/// A tool's arguments, without what the agent added, and with a command as it was written.
pub(super) fn input(raw: &Value) -> Value {
    let Value::Object(fields) = raw else { return raw.clone() };
    let mut fields = fields.clone();
    fields.retain(|name, _| !ADDED.contains(&name.as_str()));
    if let Some(Value::Array(words)) = fields.get("command") {
        let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        let command = match words.as_slice() {
            [_shell, "-c" | "-lc", script] => (*script).to_owned(),
            words => words.join(" "),
        };
        fields.insert("command".to_owned(), Value::from(command));
    }
    Value::Object(fields)
}

/// The words in what a call shows.
pub(super) fn content(news: &ToolNews) -> Option<String> {
    let texts: Vec<_> = news
        .content
        .iter()
        .flatten()
        .filter_map(|part| part.pointer("/content/text").and_then(Value::as_str))
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// What came out of a call that is over, where the agent says it.
pub(super) fn words(news: &ToolNews) -> Option<String> {
    let raw = || match news.raw_output.as_ref()? {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => {
            let words = RESULTS.iter().filter_map(|name| fields.get(*name)?.as_str());
            words.into_iter().find(|words| !words.is_empty()).map(str::to_owned)
        }
        _ => None,
    };
    content(news).or_else(raw)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn news(fields: Value) -> ToolNews {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn tools_are_called_as_the_contract_calls_them() {
        let named = |fields| tool_name(&news(fields));
        assert_eq!(named(json!({"title": "touch made", "kind": "execute"})), "Bash");
        assert_eq!(named(json!({"title": "write", "kind": "edit"})), "Write");
        assert_eq!(named(json!({"title": "look", "_meta": {"claudeCode": {"toolName": "Agent"}}})), "Task");
        assert_eq!(named(json!({"title": "mcp.ask", "kind": "other"})), "mcp.ask");
        assert_eq!(named(json!({})), "Tool");
    }

    #[test]
    fn a_command_is_told_as_it_was_written() {
        let raw = json!({"call_id": "t0", "command": ["/bin/bash", "-lc", "echo 'a b'"], "cwd": "/w"});
        assert_eq!(input(&raw), json!({"command": "echo 'a b'", "cwd": "/w"}));
        assert!(
            says_something(&raw) && !says_something(&json!({"cwd": "/w"})) && !says_something(&Value::Null)
        );
        assert!(has_more(&raw, &json!({"cwd": "/w"})) && !has_more(&raw, &input(&raw)));
    }

    #[test]
    fn what_came_out_is_found_wherever_it_is() {
        let out = |fields| words(&news(fields));
        let content = json!([{"type": "content", "content": {"type": "text", "text": "a"}}]);
        assert_eq!(out(json!({"content": content, "rawOutput": "b"})), Some("a".to_owned()));
        assert_eq!(out(json!({"rawOutput": "b"})), Some("b".to_owned()));
        assert_eq!(out(json!({"rawOutput": {"stdout": "x", "formatted_output": "c"}})), Some("c".to_owned()));
        assert_eq!(out(json!({"rawOutput": {"exit": 0}})), None);
    }
}
