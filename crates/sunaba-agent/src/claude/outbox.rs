//! What was said to the CLI and is not yet known to be in the conversation.

use serde_json::Value;
use uuid::Uuid;

use super::wire;
use crate::Incoming;
use crate::native::spoken;

/// Past this the inbox is left alone; its own bound then holds the sender back.
const SENT_MAX: usize = 256;

/// What goes to the CLI as one message.
#[derive(Debug)]
struct Sent {
    uuid: String,
    texts: Vec<String>,
    messages: Vec<Incoming>,
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    sent: Vec<Sent>,
    /// Interrupts without words: the model is told of them with the next message.
    held: Vec<Incoming>,
}

impl Outbox {
    /// The task itself, which is nobody's message.
    pub(super) fn prompt(&mut self, words: &str) -> Value {
        self.send(vec![words.to_owned()], Vec::new())
    }

    /// Keeps a message until something is to be sent.
    pub(super) fn hold(&mut self, message: Incoming) {
        self.held.push(message);
    }

    /// What is to be sent now; nothing as long as nobody has said a word.
    pub(super) fn flush(&mut self) -> Option<Value> {
        if self.held.iter().all(|message| message.content.trim().is_empty()) {
            return None;
        }
        let messages = std::mem::take(&mut self.held);
        let texts = messages.iter().map(spoken).collect();
        Some(self.send(texts, messages))
    }

    fn send(&mut self, texts: Vec<String>, messages: Vec<Incoming>) -> Value {
        let sent = Sent { uuid: Uuid::new_v4().to_string(), texts, messages };
        let line = wire::user(&sent.uuid, &sent.texts);
        self.sent.push(sent);
        line
    }

    /// Everything once more, for a process that has not heard it.
    pub(super) fn again(&self) -> Vec<Value> {
        self.sent.iter().map(|sent| wire::user(&sent.uuid, &sent.texts)).collect()
    }

    /// This is in the conversation now; what it was made of.
    pub(super) fn entered(&mut self, uuid: &str) -> Vec<Incoming> {
        match self.sent.iter().position(|sent| sent.uuid == uuid) {
            Some(index) => self.sent.remove(index).messages,
            None => Vec::new(),
        }
    }

    /// Whether the CLI still has something to take in.
    pub(super) fn is_under_way(&self) -> bool {
        !self.sent.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.sent.len() < SENT_MAX
    }

    /// What never entered the conversation.
    pub(super) fn left(self) -> Vec<Incoming> {
        self.sent.into_iter().flat_map(|sent| sent.messages).chain(self.held).collect()
    }
}
