//! A conversation written down for whoever sums it up.

use std::fmt::Write as _;

use serde_json::Value;
use sunaba_llm::{ContentBlock, Message, Role};

use crate::text::{HeadAndTail, clip};

/// Of what somebody said.
const WORDS_MAX_CHARS: usize = 20_000;
/// Of a tool's arguments and of its result; what mattered in them is in the words around them.
const TOOL_MAX_CHARS: usize = 2_000;

/// No more than about `max_chars`: beginning and end, when it is longer.
pub(super) fn written(messages: &[Message], max_chars: usize) -> String {
    let mut record = HeadAndTail::new(max_chars);
    for message in messages {
        let who = match message.role {
            Role::User => "told",
            Role::Assistant => "engineer",
        };
        for block in &message.content {
            record.push(&line(who, block));
        }
    }
    record.finish()
}

fn line(who: &str, block: &ContentBlock) -> String {
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = match block {
        ContentBlock::Text { text, .. } => writeln!(line, "[{who}] {}", clip(text, WORDS_MAX_CHARS)),
        ContentBlock::ToolUse { name, input, .. } => {
            writeln!(line, "[uses {name}] {}", clip(&input.to_string(), TOOL_MAX_CHARS))
        }
        ContentBlock::ToolResult { content, is_error, .. } => {
            let word = if *is_error { "failed" } else { "result" };
            let content = content.as_str().map_or_else(|| content.to_string(), ToOwned::to_owned);
            writeln!(line, "[{word}] {}", clip(&content, TOOL_MAX_CHARS))
        }
        ContentBlock::Thinking { .. } => Ok(()),
        ContentBlock::Other(block) => {
            let kind = block.get("type").and_then(Value::as_str).unwrap_or("something");
            writeln!(line, "[{who}: {kind}]")
        }
    };
    line
}
