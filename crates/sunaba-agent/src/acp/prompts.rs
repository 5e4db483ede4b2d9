//! What was said to the agent: handed over, and whether it is in the conversation yet.

use super::preset::{Preset, Prompts};
use crate::Incoming;
use crate::native::spoken;

/// Past this the inbox is left alone; its own bound then holds the sender back.
const HANDED_MAX: usize = 64;

/// One prompt that the agent has not answered.
#[derive(Debug)]
struct Handed {
    id: u64,
    messages: Vec<Incoming>,
    /// The first answer of the model that can know of it.
    earliest: u32,
    has_entered: bool,
}

/// What is said as one prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) texts: Vec<String>,
    messages: Vec<Incoming>,
}

impl Words {
    /// What is nobody's message.
    pub(super) fn plain(texts: Vec<String>) -> Self {
        Self { texts, messages: Vec::new() }
    }
}

#[derive(Debug)]
pub(super) struct Outbox {
    takes: Prompts,
    remarks_at_once: bool,
    handed: Vec<Handed>,
    held: Vec<Incoming>,
    /// What the agent is to be told that nobody said: of what it was not allowed, or of an answer that is lost.
    remarks: Vec<String>,
}

impl Outbox {
    pub(super) fn new(preset: &Preset) -> Self {
        Self::taken(preset.prompts, preset.goes_on_after_refusal)
    }

    fn taken(takes: Prompts, remarks_at_once: bool) -> Self {
        Self { takes, remarks_at_once, handed: Vec::new(), held: Vec::new(), remarks: Vec::new() }
    }

    /// Keeps a message until something can be handed over.
    pub(super) fn hold(&mut self, message: Incoming) {
        self.held.push(message);
    }

    /// Keeps messages that come before those that are kept already.
    pub(super) fn hold_first(&mut self, messages: Vec<Incoming>) {
        self.held.splice(0..0, messages);
    }

    /// What the agent has to know and the protocol has no words for.
    pub(super) fn remark(&mut self, words: String) {
        self.remarks.push(words);
    }

    /// What is to be handed over now; nothing as long as nobody has said a word, or the agent has to be let alone.
    pub(super) fn next(&mut self) -> Option<Words> {
        let is_busy = self.is_under_way();
        if is_busy && self.takes == Prompts::OneAtATime {
            return None;
        }
        let may_remark = !is_busy || self.remarks_at_once;
        let remarks = if may_remark { std::mem::take(&mut self.remarks) } else { Vec::new() };
        if !self.has_words() && remarks.is_empty() {
            return None;
        }
        let messages = std::mem::take(&mut self.held);
        let texts = remarks.into_iter().chain(messages.iter().map(spoken)).collect();
        Some(Words { texts, messages })
    }

    /// The agent has it; an answer before the earliest was asked for without it.
    pub(super) fn handed_over(&mut self, id: u64, words: Words, earliest: u32) {
        self.handed.push(Handed { id, messages: words.messages, earliest, has_entered: false });
    }

    /// The model gives this answer: what was handed over in time is in the conversation.
    pub(super) fn entered(&mut self, turn: u32) -> Vec<Incoming> {
        self.handed
            .iter_mut()
            .filter(|handed| handed.earliest <= turn)
            .flat_map(|handed| {
                handed.has_entered = true;
                std::mem::take(&mut handed.messages)
            })
            .collect()
    }

    /// The agent has answered a prompt, and with it those before; which messages entered unseen. None when it was
    /// none of ours.
    pub(super) fn answered(&mut self, id: u64) -> Option<Vec<Incoming>> {
        let last = self.handed.iter().position(|handed| handed.id == id)?;
        let done: Vec<_> = self.handed.drain(..=last).collect();
        if self.takes == Prompts::First {
            self.handed.retain(|handed| !handed.has_entered);
        }
        Some(done.into_iter().flat_map(|handed| handed.messages).collect())
    }

    /// Nothing more comes of what was handed over: it is in the conversation all the same.
    pub(super) fn settled(&mut self) -> Vec<Incoming> {
        self.handed.drain(..).flat_map(|handed| handed.messages).collect()
    }

    /// What was handed over was dropped by the agent: what had not entered is said again.
    pub(super) fn dropped(&mut self) {
        let lost = self.handed.drain(..).flat_map(|handed| handed.messages).collect();
        self.hold_first(lost);
    }

    /// Whether a prompt before this one is not answered yet.
    pub(super) fn has_older_than(&self, id: u64) -> bool {
        self.handed.iter().any(|handed| handed.id < id)
    }

    /// Whether somebody has said something that was not handed over yet.
    pub(super) fn has_words(&self) -> bool {
        self.held.iter().any(|message| !message.content.trim().is_empty())
    }

    /// Whether the agent still works on something.
    pub(super) fn is_under_way(&self) -> bool {
        !self.handed.is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.handed.len() + self.held.len() < HANDED_MAX
    }

    /// What never entered the conversation.
    pub(super) fn left(self) -> Vec<Incoming> {
        self.handed.into_iter().flat_map(|handed| handed.messages).chain(self.held).collect()
    }
}

#[cfg(test)]
mod tests {
    use sunaba_types::MessageType;

    use super::*;

    fn message(id: &str, content: &str) -> Incoming {
        Incoming {
            message_id: id.to_owned(),
            message_type: MessageType::UserMessage,
            content: content.to_owned(),
            sender: "ada".to_owned(),
        }
    }

    fn busy(takes: Prompts) -> Outbox {
        let mut outbox = Outbox::taken(takes, false);
        outbox.handed_over(1, Words::plain(vec!["the task".to_owned()]), 1);
        outbox.hold(message("m", "left"));
        outbox
    }

    #[test]
    fn an_agent_of_which_nothing_is_known_is_told_one_thing_at_a_time() {
        let mut outbox = busy(Prompts::OneAtATime);
        assert_eq!(outbox.next(), None);
        assert_eq!(outbox.answered(1), Some(vec![]));
        let words = outbox.next().unwrap();
        assert!(words.texts[0].contains("left"));
        outbox.handed_over(2, words, 2);
        assert_eq!(outbox.entered(2).len(), 1);
        assert_eq!(outbox.entered(3), [], "told once");
        assert!(outbox.left().is_empty());
    }

    #[test]
    fn one_answer_stands_for_what_entered_its_turn_and_for_no_more() {
        let mut outbox = busy(Prompts::First);
        let words = outbox.next().unwrap();
        outbox.handed_over(2, words, 2);
        outbox.entered(2);
        outbox.hold(message("n", "too late"));
        let words = outbox.next().unwrap();
        outbox.handed_over(3, words, 4);
        assert_eq!(outbox.entered(3), [], "this answer was asked for before");
        assert_eq!(outbox.answered(1), Some(vec![]));
        assert!(outbox.is_under_way(), "the third has a turn of its own");
        assert_eq!(outbox.answered(3).unwrap().len(), 1);
        assert!(!outbox.is_under_way());
        assert_eq!(outbox.answered(2), None);
    }

    #[test]
    fn a_refusal_is_explained_when_the_agent_can_hear_it() {
        let mut outbox = busy(Prompts::First);
        outbox.remark("not on a Monday".to_owned());
        let words = outbox.next().unwrap();
        assert!(!words.texts.concat().contains("Monday"), "its turn is about to end");
        outbox.handed_over(2, words, 2);
        outbox.entered(2);
        outbox.answered(1);
        assert_eq!(outbox.next().unwrap().texts, ["not on a Monday"]);
    }

    #[test]
    fn what_was_dropped_is_said_again_before_what_came_later() {
        let mut outbox = busy(Prompts::Each);
        let words = outbox.next().unwrap();
        outbox.handed_over(2, words, 2);
        outbox.hold(message("n", "later"));
        outbox.dropped();
        let ids: Vec<_> = outbox.left().into_iter().map(|message| message.message_id).collect();
        assert_eq!(ids, ["m", "n"]);
    }
}
