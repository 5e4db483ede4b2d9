//! What was said to the CLI and is not yet known to be in the conversation.

use serde_json::Value;
use uuid::Uuid;

use super::wire;
use crate::native::spoken;
use crate::{Incoming, Transcript};

/// Past this the inbox is left alone; its own bound then holds the sender back.
const SENT_MAX: usize = 256;

/// What goes to the CLI as one message.
#[derive(Debug)]
struct Sent {
    uuid: String,
    texts: Vec<String>,
    /// What it was made of, until that was told.
    messages: Vec<Incoming>,
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    sent: Vec<Sent>,
    /// In the conversation of this turn, which may not be on the disk yet.
    entered: Vec<Sent>,
    /// Was said to a process that is gone, and did not outlive it.
    unheard: Vec<Sent>,
    /// Interrupts without words: the model is told of them with the next message.
    held: Vec<Incoming>,
}

impl Outbox {
    /// What is nobody's message: the task itself, and what we tell about it.
    pub(super) fn say(&mut self, words: &str) -> Value {
        self.send(vec![words.to_owned()], Vec::new())
    }

    /// Keeps a message until something is to be sent.
    pub(super) fn hold(&mut self, message: Incoming) {
        self.held.push(message);
    }

    /// What is to be sent now; nothing as long as nobody has said a word. All of it goes as one message, so that the
    /// model does not begin before it has heard the last of it.
    pub(super) fn flush(&mut self) -> Option<Value> {
        let has_words = |messages: &[Incoming]| messages.iter().any(|said| !said.content.trim().is_empty());
        if !has_words(&self.held) && !self.unheard.iter().any(|sent| has_words(&sent.messages)) {
            return None;
        }
        let (mut texts, mut messages) = (Vec::new(), Vec::new());
        for sent in std::mem::take(&mut self.unheard) {
            texts.extend(sent.texts);
            messages.extend(sent.messages);
        }
        texts.extend(self.held.iter().map(spoken));
        messages.append(&mut self.held);
        Some(self.send(texts, messages))
    }

    fn send(&mut self, texts: Vec<String>, messages: Vec<Incoming>) -> Value {
        let sent = Sent { uuid: Uuid::new_v4().to_string(), texts, messages };
        let line = wire::user(&sent.uuid, &sent.texts);
        self.sent.push(sent);
        line
    }

    /// Another process goes on with this conversation: what is not in it is said once more, with the next words.
    pub(super) fn next_process(&mut self, conversation: Option<&Transcript>) {
        let said = std::mem::take(&mut self.entered).into_iter().chain(std::mem::take(&mut self.sent));
        self.unheard
            .extend(said.filter(|sent| !conversation.is_some_and(|known| known.mentions(&sent.uuid))));
    }

    /// This is in the conversation now; what it was made of.
    pub(super) fn entered(&mut self, uuid: &str) -> Vec<Incoming> {
        let Some(index) = self.sent.iter().position(|sent| sent.uuid == uuid) else { return Vec::new() };
        let mut sent = self.sent.remove(index);
        let messages = std::mem::take(&mut sent.messages);
        if self.entered.len() == SENT_MAX {
            self.entered.remove(0);
        }
        self.entered.push(sent);
        messages
    }

    /// The turn is over, and what entered it is kept by the CLI.
    pub(super) fn turn_over(&mut self) {
        self.entered.clear();
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
        self.unheard.into_iter().chain(self.sent).flat_map(|sent| sent.messages).chain(self.held).collect()
    }
}
