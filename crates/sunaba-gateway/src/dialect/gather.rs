//! Puts together what a request says, within bounds.

use serde_json::{Map, Value, json};

use super::{Detail, add_line};
use crate::json::Lazy;
use crate::script::{Conversation, OfferedTool, Said, Speaker};

/// Messages of one request.
const MESSAGES_MAX: usize = 100_000;
/// Tools of one request; more are not looked at.
const TOOLS_MAX: usize = 2_000;
/// Properties of all tools together; more are not looked at.
const PROPERTIES_MAX: usize = 5_000;

/// A request that is being read.
#[derive(Debug)]
pub(super) struct Gather {
    read: Conversation,
    detail: Detail,
    last: Option<Speaker>,
    properties: usize,
}

impl Gather {
    pub(super) fn new(detail: Detail, read: Conversation) -> Self {
        Self { read, detail, last: None, properties: 0 }
    }

    pub(super) fn done(self) -> Conversation {
        self.read
    }

    /// Adds to what belongs to the system.
    pub(super) fn system(&mut self, words: &str) {
        if self.detail == Detail::Whole && !words.is_empty() {
            add_line(&mut self.read.system, words);
        }
    }

    /// Adds a message.
    pub(super) fn say(&mut self, by: Speaker, text: String, tool_results: String) -> Result<(), String> {
        if self.read.message_count >= MESSAGES_MAX {
            return Err(format!("a request has at most {MESSAGES_MAX} messages"));
        }
        self.read.message_count += 1;
        self.last = Some(by);
        if self.detail == Detail::Whole {
            self.read.messages.push(Said { by, text, tool_results });
        }
        Ok(())
    }

    /// Adds to the answer that was the last message, or begins the next one.
    pub(super) fn say_on(&mut self, text: &str) -> Result<(), String> {
        if self.last != Some(Speaker::Assistant) {
            return self.say(Speaker::Assistant, text.to_owned(), String::new());
        }
        if let Some(last) = self.read.messages.last_mut().filter(|_| !text.is_empty()) {
            add_line(&mut last.text, text);
        }
        Ok(())
    }

    /// Goes through the offered tools, if they are of any interest.
    pub(super) fn tools<'a>(
        &mut self,
        tools: Lazy<'a>,
        mut read: impl FnMut(&mut Self, Lazy<'a>) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.detail == Detail::Whole {
            tools.each(|tool| read(self, tool))?;
        }
        Ok(())
    }

    pub(super) fn offer(&mut self, tool: OfferedTool) {
        if self.read.tools.len() < TOOLS_MAX {
            self.read.tools.push(tool);
        }
    }

    /// The properties of a tool's input, with what scripts go by: their type and the words about them.
    pub(super) fn properties(&mut self, schema: Lazy<'_>) -> Result<Map<String, Value>, String> {
        let [properties] = schema.pick(["properties"])?;
        let mut found = Map::new();
        let mut wrong = Ok(());
        properties.each_field(|name, property| {
            self.properties += 1;
            match property.pick(["type", "description"]) {
                Ok([kind, words]) => {
                    found.insert(name, json!({"type": kind.text(), "description": words.text()}));
                }
                Err(words) => wrong = Err(words),
            }
            self.properties < PROPERTIES_MAX && wrong.is_ok()
        })?;
        wrong.map(|()| found)
    }
}
