//! What the agent asks while somebody watches: which questions are open, and what a typed line says to the first.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::client::Event;

/// What may be typed.
pub(super) const KEYS: &str =
    "a: allow   d: deny   d WORDS: deny and say why   always: allow this tool from now on";
/// Most questions that are remembered; a sandbox has no more open ones.
const OPEN_MAX: usize = 100;

/// The questions that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Open(VecDeque<String>);

impl Open {
    /// Whether this event asks something new.
    pub(super) fn hear(&mut self, event: &Event) -> bool {
        let Some(id) = event.text("question_id") else { return false };
        match event.event_type.as_str() {
            "agent.question_asked" if self.0.len() < OPEN_MAX => {
                self.0.push_back(id.to_owned());
                true
            }
            "sandbox.question_answered" | "sandbox.question_expired" | "agent.question_withdrawn" => {
                self.forget(id);
                false
            }
            _ => false,
        }
    }

    /// What a line says to the oldest question; none when it is a line for the agent.
    pub(super) fn answer(&self, line: &str) -> Option<(String, Value)> {
        let id = self.0.front()?.clone();
        let (word, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        let body = match (word.to_ascii_lowercase().as_str(), rest.trim()) {
            ("a" | "allow" | "y" | "yes", "") => json!({"decision": "allow"}),
            ("always", "") => json!({"decision": "allow", "remember": "tool"}),
            ("d" | "deny" | "n" | "no", "") => json!({"decision": "deny"}),
            ("d" | "deny", words) => json!({"decision": "deny", "message": words}),
            _ => return None,
        };
        Some((id, body))
    }

    /// It no longer waits.
    pub(super) fn forget(&mut self, id: &str) {
        self.0.retain(|open| open != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event_type: &str, id: &str) -> Event {
        serde_json::from_value(json!({
            "id": "e", "seq": 1, "sandbox_id": "s", "event_type": event_type, "source": "agent",
            "event_data": {"question_id": id}, "created_at": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    #[test]
    fn a_line_answers_the_oldest_question_or_goes_to_the_agent() {
        let mut open = Open::default();
        assert_eq!(open.answer("a"), None, "nothing is asked");
        assert!(open.hear(&event("agent.question_asked", "q1")));
        assert!(open.hear(&event("agent.question_asked", "q2")));
        let said = |open: &Open, line: &str| open.answer(line).map(|(id, body)| format!("{id} {body}"));
        assert_eq!(said(&open, " A "), Some(r#"q1 {"decision":"allow"}"#.to_owned()));
        assert_eq!(
            said(&open, "d not today"),
            Some(r#"q1 {"decision":"deny","message":"not today"}"#.to_owned())
        );
        assert_eq!(said(&open, "always"), Some(r#"q1 {"decision":"allow","remember":"tool"}"#.to_owned()));
        for words in ["a word", "no, rather use git", "do it", ""] {
            assert_eq!(open.answer(words), None, "{words}");
        }
        assert!(!open.hear(&event("sandbox.question_answered", "q1")));
        assert_eq!(said(&open, "n"), Some(r#"q2 {"decision":"deny"}"#.to_owned()));
        assert!(!open.hear(&event("agent.question_withdrawn", "q2")));
        assert_eq!(open.answer("a"), None);
    }
}
