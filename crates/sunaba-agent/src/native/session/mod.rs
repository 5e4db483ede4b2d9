//! The conversation on disk: one file a session in the runtime's home, JSON lines, only ever added to.
//!
//! ```text
//! {"type":"session","version":1,"session_id":"…"}      what the file is
//! {"type":"user","content":[…]}                         what the model was told
//! {"type":"assistant","content":[…]}                    what it answered
//! {"type":"replaced","messages":[…]}                    stands for everything before it
//! ```
//!
//! Each step of a turn is one write of whole lines, so whatever kills the process leaves every step before; a line
//! that was torn is left out when the file is read. Replaying the lines gives the conversation, and a tool request
//! that has no answer gets one that says so.

mod file;

use serde::{Deserialize, Serialize};
use sunaba_llm::{ContentBlock, Message};

use super::conversation::Conversation;

pub(super) use file::{SessionFile, find};

const VERSION: u32 = 1;

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Entry {
    /// What the file is.
    Session {
        version: u32,
        session_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<String>,
    },
    /// What the model was told.
    User { content: Vec<ContentBlock> },
    /// What it answered.
    Assistant { content: Vec<ContentBlock> },
    /// Stands for everything before it.
    Replaced { messages: Vec<Message> },
}

/// Why a transcript cannot be gone on from.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Unreadable {
    #[error("it is not a transcript of the native runtime")]
    Foreign,
    #[error("it has version {0}; this runtime reads version {VERSION}")]
    Version(u32),
    #[error("its line {0} cannot be read")]
    Line(usize),
}

/// Plays a transcript. Only its last line may be torn: that is where a killed process stopped.
pub(super) fn replay(transcript: &[u8]) -> Result<Conversation, Unreadable> {
    let mut lines = transcript.split(|byte| *byte == b'\n').enumerate().peekable();
    let head = lines.next().and_then(|(_, line)| serde_json::from_slice(line).ok());
    match head {
        Some(Entry::Session { version: VERSION, .. }) => {}
        Some(Entry::Session { version, .. }) => return Err(Unreadable::Version(version)),
        _ => return Err(Unreadable::Foreign),
    }
    let mut conversation = Conversation::default();
    while let Some((index, line)) = lines.next() {
        match serde_json::from_slice(line) {
            Ok(entry) => conversation.replay(entry),
            // What follows the last line end: nothing, or a line that was torn.
            Err(_) if lines.peek().is_none() => {}
            Err(_) => return Err(Unreadable::Line(index + 1)),
        }
    }
    conversation.mend();
    Ok(conversation)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(entries: &[Entry]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|entry| serde_json::to_string(entry).unwrap().into_bytes().into_iter().chain([b'\n']))
            .collect()
    }

    fn head(version: u32) -> Entry {
        Entry::Session { version, session_id: "s".to_owned(), forked_from: None }
    }

    fn said(words: &str) -> Entry {
        Entry::User { content: vec![ContentBlock::text(words)] }
    }

    fn asked(id: &str) -> Entry {
        let request = ContentBlock::ToolUse { id: id.to_owned(), name: "Bash".to_owned(), input: json!({}) };
        Entry::Assistant { content: vec![request] }
    }

    #[test]
    fn every_cut_of_the_file_is_a_conversation_that_can_go_on() {
        let result = Entry::User { content: vec![ContentBlock::tool_result("a", "done", false)] };
        let whole = lines(&[head(VERSION), said("go"), asked("a"), result, said("and"), asked("b")]);
        let first_line = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for cut in first_line..=whole.len() {
            let conversation = replay(&whole[..cut]).unwrap();
            let messages = serde_json::to_value(conversation.for_request()).unwrap();
            let text = messages.to_string();
            for id in ["a", "b"] {
                let requested = text.contains(&format!(r#""id":"{id}""#));
                let answered = text.contains(&format!(r#""tool_use_id":"{id}""#));
                assert_eq!(requested, answered, "{id} at {cut}: {text}");
            }
            let roles: Vec<_> = conversation.for_request().iter().map(|message| message.role).collect();
            assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "at {cut}: {text}");
        }
    }

    #[test]
    fn what_stands_for_the_past_takes_its_place() {
        let summary = Message { role: sunaba_llm::Role::User, content: vec![ContentBlock::text("in short")] };
        let whole =
            lines(&[head(VERSION), said("long"), asked("a"), Entry::Replaced { messages: vec![summary] }]);
        let text = serde_json::to_string(&replay(&whole).unwrap().for_request()).unwrap();
        assert!(text.contains("in short") && !text.contains("long") && !text.contains("tool_use"), "{text}");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let reason = |bytes: &[u8]| replay(bytes).unwrap_err();
        assert_eq!(reason(b""), Unreadable::Foreign);
        assert_eq!(reason(b"{\"type\":\"summary\",\"leafUuid\":\"x\"}\n"), Unreadable::Foreign);
        assert_eq!(reason(&lines(&[said("no head")])), Unreadable::Foreign);
        assert_eq!(reason(&lines(&[head(9)])), Unreadable::Version(9));
        let mut torn_inside = lines(&[head(VERSION)]);
        torn_inside.extend_from_slice(b"{\"type\":\"us\n");
        torn_inside.extend_from_slice(&lines(&[said("more")]));
        assert_eq!(reason(&torn_inside), Unreadable::Line(2));
    }
}
