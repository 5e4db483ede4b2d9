//! What an agent asks, and what was answered.

use serde_json::Value;

use super::clean::{clean, clean_line};
use super::words::{counted, shorten};
use crate::client::Event;
use crate::output::Colour;

/// Most lines of what the tool is to do; who decides should see all of it, within reason.
const INPUT_MAX_LINES: usize = 40;
const INPUT_MAX_CHARS: usize = 8_000;
/// What a tool does is said by one of these alone.
const WHOLE: [&str; 1] = ["command"];

/// The lines for an event about a question; empty for any other.
pub(super) fn lines(event: &Event, colour: Colour) -> String {
    let tool = clean_line(event.text("tool").unwrap_or("a tool"));
    let id = clean_line(event.text("question_id").unwrap_or_default());
    match event.event_type.as_str() {
        "agent.question_asked" => {
            let input = event.event_data.get("input").unwrap_or(&Value::Null);
            let head = format!("? may it use {tool}? ({id})");
            format!("{}\n{}", colour.magenta(&head), question_input(input, "    "))
        }
        "sandbox.question_answered" => {
            let by = shorten(&clean_line(event.text("answered_by").unwrap_or("somebody")), 40);
            let word = if event.text("answer") == Some("allow") { "allowed" } else { "denied" };
            let changed = if event.event_data.get("updated_input").is_some_and(|input| !input.is_null()) {
                ", with other arguments"
            } else {
                ""
            };
            let why = event.text("message").map(|words| format!(": {}", shorten(&clean_line(words), 200)));
            let again = event.text("reason").map(|words| format!(" ({})", clean_line(words)));
            let head = format!("! {by} {word} {tool}{changed}{}", why.unwrap_or_default());
            format!("{}{}\n", colour.magenta(&head), colour.dim(&again.unwrap_or_default()))
        }
        "sandbox.question_expired" => {
            let word = if event.text("answer") == Some("allow") { "allowed" } else { "denied" };
            format!("{}\n", colour.yellow(&format!("! nobody answered in time: {tool} is {word}")))
        }
        "agent.question_withdrawn" => {
            let why = clean_line(event.text("reason").unwrap_or("the agent no longer waits"));
            format!("{}\n", colour.dim(&format!("! the question about {tool} is withdrawn: {why}")))
        }
        _ => String::new(),
    }
}

/// What a tool is to do, whole as far as that is bearable.
pub(crate) fn question_input(input: &Value, indent: &str) -> String {
    let text = match input.as_object() {
        None => "(longer than is shown here)".to_owned(),
        Some(fields) => match WHOLE.iter().find_map(|name| fields.get(*name).and_then(Value::as_str)) {
            Some(whole) if fields.keys().all(|key| WHOLE.contains(&key.as_str()) || key == "description") => {
                whole.to_owned()
            }
            _ => serde_json::to_string_pretty(input).unwrap_or_default(),
        },
    };
    let text = clean(text.trim_end());
    let cut: String = text.chars().take(INPUT_MAX_CHARS).collect();
    let all = text.lines().count();
    let shown: Vec<&str> = cut.lines().take(INPUT_MAX_LINES).collect();
    let mut lines: String = shown.iter().map(|line| format!("{indent}{line}\n")).collect();
    if shown.len() < all {
        lines.push_str(&format!("{indent}… {}\n", counted(all - shown.len(), "more line", "more lines")));
    } else if cut.len() < text.len() {
        lines.push_str(&format!("{indent}… and more\n"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_shown_whole_and_cannot_forge_lines() {
        let command = json!({"command": "echo a\nrm -rf b\u{1b}[2J", "description": "tidy"});
        assert_eq!(question_input(&command, "  "), "  echo a\n  rm -rf b␛[2J\n");
        let timed = question_input(&json!({"command": "ls", "timeout": 5}), "");
        assert!(timed.contains("\"timeout\": 5"), "{timed}");
        let long = json!({"command": "x\n".repeat(100)});
        assert!(question_input(&long, "").ends_with("… 60 more lines\n"));
        assert!(question_input(&json!({"command": "x".repeat(9_000)}), "").ends_with("… and more\n"));
    }
}
