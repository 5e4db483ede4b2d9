//! The conversation with the model, kept in the form that the API accepts.
//!
//! Two rules hold after every call here: roles alternate, and every tool request of the model is answered in
//! the message that follows it. So whatever was interrupted, the next request is a valid one.

use sunaba_llm::{ContentBlock, Message, Reply, Role};

use super::context::Size;
use super::session::Entry;

/// Marks of a cached prefix on messages. The API takes four in all; tools and system prompt have one each.
const CACHED_MESSAGES: usize = 2;
const NOT_ANSWERED: &str = "[interrupted] nobody knows how far it came";

#[derive(Debug, Default)]
pub(super) struct Conversation {
    messages: Vec<Message>,
    /// What has happened since it was last saved.
    unsaved: Vec<Entry>,
    size: Size,
}

impl Conversation {
    /// Says something to the model; joins what was already said since its last answer.
    pub(super) fn push_user(&mut self, blocks: Vec<ContentBlock>) {
        if !blocks.is_empty() {
            self.unsaved.push(Entry::User { content: blocks.clone() });
            self.size.add(&blocks);
            self.add(Role::User, blocks);
        }
    }

    /// Takes the model's answer, without blocks that the API would refuse to get back: words that are none, and a
    /// thought that was cut off before it was signed.
    pub(super) fn push_assistant(&mut self, reply: &Reply) {
        self.size.report(reply);
        let was_cut = reply.stop_reason.as_deref() == Some("max_tokens");
        let is_refused = |block: &ContentBlock| match block {
            ContentBlock::Text { text, .. } => text.trim().is_empty(),
            ContentBlock::Thinking { signature, .. } => was_cut && signature.is_empty(),
            _ => false,
        };
        let content: Vec<_> = reply.content.iter().filter(|block| !is_refused(block)).cloned().collect();
        if !content.is_empty() {
            self.unsaved.push(Entry::Assistant { content: content.clone() });
            self.add(Role::Assistant, content);
        }
    }

    fn add(&mut self, role: Role, content: Vec<ContentBlock>) {
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            _ => self.messages.push(Message { role, content }),
        }
    }

    /// Plays one line of a saved conversation.
    pub(super) fn replay(&mut self, entry: Entry) {
        match entry {
            Entry::Session { .. } => {}
            Entry::User { content } => {
                self.size.add(&content);
                self.add(Role::User, content);
            }
            Entry::Assistant { content } => {
                self.size.add(&content);
                self.add(Role::Assistant, content);
            }
            Entry::Replaced { messages } => {
                self.size = Size::of(&messages);
                self.messages = messages;
            }
        }
    }

    /// How large it is.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// All of it.
    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Goes on with these in place of all that was said.
    pub(super) fn replace(&mut self, messages: Vec<Message>) {
        self.size = Size::of(&messages);
        self.messages = messages;
        let whole = self.as_entry();
        self.unsaved.push(whole);
    }

    /// Answers tool requests that were left without an answer when the process was killed.
    pub(super) fn mend(&mut self) {
        let Some(last) = self.messages.last().filter(|last| last.role == Role::Assistant) else { return };
        let left = last.content.iter().filter_map(|block| match block {
            ContentBlock::ToolUse { id, .. } => Some(ContentBlock::tool_result(id, NOT_ANSWERED, true)),
            _ => None,
        });
        self.push_user(left.collect());
    }

    /// What has happened since this was last asked.
    pub(super) fn take_unsaved(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.unsaved)
    }

    /// The whole of it as one line; nothing of it is unsaved then.
    pub(super) fn as_entry(&mut self) -> Entry {
        self.unsaved.clear();
        Entry::Replaced { messages: self.messages.clone() }
    }

    /// The messages of the next request. A cached prefix ends with what was said last, and one with what was said
    /// before that: the second is what the last call put into the cache, however much one turn has added.
    pub(super) fn for_request(&self) -> Vec<Message> {
        let mut messages = self.messages.clone();
        let said = messages.iter_mut().rev().filter(|message| message.role == Role::User);
        for message in said.take(CACHED_MESSAGES) {
            if let Some(block) = message.content.pop() {
                message.content.push(block.with_cache_mark());
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reply(content: Vec<ContentBlock>, stop_reason: &str) -> Reply {
        Reply {
            id: String::new(),
            model: String::new(),
            content,
            stop_reason: Some(stop_reason.to_owned()),
            usage: sunaba_llm::Usage::default(),
            unusable_tool_inputs: Vec::new(),
        }
    }

    fn words(words: &str) -> Reply {
        reply(vec![ContentBlock::text(words)], "end_turn")
    }

    #[test]
    fn the_last_two_things_said_end_a_cached_prefix() {
        let mut conversation = Conversation::default();
        for last in ["a", "b", "c"] {
            conversation.push_user(vec![ContentBlock::text("first"), ContentBlock::text(last)]);
            conversation.push_assistant(&words("well"));
        }
        conversation.push_user(vec![ContentBlock::tool_result("t", "done", false)]);
        let messages = serde_json::to_value(conversation.for_request()).unwrap();
        let marked: Vec<_> = (0..7).filter(|at| messages[at].to_string().contains("cache_control")).collect();
        assert_eq!(marked, [4, 6]);
        assert_eq!(messages[4]["content"][1]["cache_control"], json!({"type": "ephemeral"}));
        assert!(messages[4]["content"][0].get("cache_control").is_none());
    }

    #[test]
    fn a_thought_without_its_signature_stays_only_if_it_is_whole() {
        let thought =
            |signature: &str| ContentBlock::Thinking { thinking: "hm".into(), signature: signature.into() };
        for (stop_reason, kept) in [("max_tokens", 1), ("end_turn", 2)] {
            let mut conversation = Conversation::default();
            conversation.push_assistant(&reply(vec![thought("signed"), thought("")], stop_reason));
            assert_eq!(conversation.for_request()[0].content.len(), kept, "{stop_reason}");
        }
    }

    #[test]
    fn roles_alternate_whatever_is_pushed() {
        let mut conversation = Conversation::default();
        conversation.push_user(vec![ContentBlock::text("a")]);
        conversation.push_assistant(&words("  "));
        conversation.push_user(vec![ContentBlock::text("b")]);
        conversation.push_assistant(&words("c"));
        conversation.push_assistant(&words("d"));
        let roles: Vec<_> = conversation.for_request().iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant]);
    }
}
