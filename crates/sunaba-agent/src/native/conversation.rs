//! The conversation with the model, kept in the form that the API accepts.
//!
//! Two rules hold after every call here: roles alternate, and every tool request of the model is answered in
//! the message that follows it. So whatever was interrupted, the next request is a valid one.

use sunaba_llm::{ContentBlock, Message, Role};

use crate::tools::ToolCall;

const NOT_RUN: &str = "[interrupted before it ran]";

#[derive(Debug, Default)]
pub(super) struct Conversation {
    messages: Vec<Message>,
}

impl Conversation {
    /// Says something to the model; joins what was already said since its last answer.
    pub(super) fn push_user(&mut self, blocks: Vec<ContentBlock>) {
        if blocks.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User => last.content.extend(blocks),
            _ => self.messages.push(Message { role: Role::User, content: blocks }),
        }
    }

    /// Takes the model's answer, without blocks that the API would refuse to get back.
    pub(super) fn push_assistant(&mut self, content: Vec<ContentBlock>) {
        let is_empty =
            |block: &ContentBlock| matches!(block, ContentBlock::Text { text, .. } if text.trim().is_empty());
        let content: Vec<_> = content.into_iter().filter(|block| !is_empty(block)).collect();
        if content.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(last) if last.role == Role::Assistant => last.content.extend(content),
            _ => self.messages.push(Message { role: Role::Assistant, content }),
        }
    }

    /// Answers the model's tool requests, in their order; those without a result are told as not run.
    pub(super) fn settle_tools(&mut self, calls: &[ToolCall], mut results: Vec<ContentBlock>) {
        for call in calls {
            let answered = results.iter().any(|block| {
                matches!(block, ContentBlock::ToolResult { tool_use_id, .. } if *tool_use_id == call.id)
            });
            if !answered {
                results.push(ContentBlock::tool_result(&call.id, NOT_RUN, true));
            }
        }
        self.push_user(results);
    }

    /// The messages of the next request, with the end of the cached prefix on the last block.
    pub(super) fn for_request(&self) -> Vec<Message> {
        let mut messages = self.messages.clone();
        if let Some(last) = messages.last_mut()
            && let Some(block) = last.content.pop()
        {
            last.content.push(block.with_cache_mark());
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: "Bash".to_owned(), input: json!({}) }
    }

    #[test]
    fn every_tool_request_is_answered_in_order() {
        let mut conversation = Conversation::default();
        conversation.push_user(vec![ContentBlock::text("go")]);
        let request =
            |id: &str| ContentBlock::ToolUse { id: id.into(), name: "Bash".into(), input: json!({}) };
        conversation.push_assistant(vec![request("a"), request("b"), request("c")]);
        let done = ContentBlock::tool_result("a", "ok", false);
        conversation.settle_tools(&[call("a"), call("b"), call("c")], vec![done]);
        conversation.push_user(vec![ContentBlock::text("now what")]);

        let messages = conversation.for_request();
        assert_eq!(messages.len(), 3);
        let answered: Vec<_> = messages[2]
            .content
            .iter()
            .filter_map(|block| match block {
                ContentBlock::ToolResult { tool_use_id, is_error, .. } => {
                    Some((tool_use_id.as_str(), *is_error))
                }
                _ => None,
            })
            .collect();
        assert_eq!(answered, [("a", false), ("b", true), ("c", true)]);
        assert!(matches!(messages[2].content.last(), Some(ContentBlock::Text { .. })));
    }

    #[test]
    fn roles_alternate_whatever_is_pushed() {
        let mut conversation = Conversation::default();
        conversation.push_user(vec![ContentBlock::text("a")]);
        conversation.push_assistant(vec![ContentBlock::text("  ")]);
        conversation.push_user(vec![ContentBlock::text("b")]);
        conversation.push_assistant(vec![ContentBlock::text("c")]);
        conversation.push_assistant(vec![ContentBlock::text("d")]);
        let roles: Vec<_> = conversation.for_request().iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant]);
    }
}
