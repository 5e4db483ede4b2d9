//! Keeps the conversation within the model's window.
//!
//! Results that one turn adds are cut to a share of the window before they join. When what the last answer reported,
//! and what was added since, comes near the window, everything but the last turns is put into a summary by the model
//! itself and the conversation goes on with task, summary and those turns. A request and its result are never parted:
//! the last turns begin with an answer of the model.

mod fit;
mod record;
mod split;

use serde_json::json;
use sunaba_llm::{ContentBlock, Message, MessagesRequest, Reply, Role, SystemBlock};

use super::call::NoReply;
use super::run::Run;
use crate::AgentEvent;
use crate::text::clip;

pub(super) use fit::fit;
use split::{cut_results, split};

/// Bytes that surely are a token or more; code has three to four.
const BYTES_A_TOKEN: u64 = 3;
/// Of the window, what the last turns that stay may have: one part in this many.
const KEPT_SHARE: u32 = 5;
/// Of the window, what the results of one turn may have.
const RESULTS_SHARE: u32 = 4;
const SUMMARY_MAX_TOKENS: u32 = 8_192;
/// Of the task's own words, which stay as they are.
const TASK_MAX_CHARS: usize = 20_000;

const SUMMARY_SYSTEM: &str = "You are given the record of a software engineer's work so far. Write what they need to \
go on without it: what was asked, and every later wish in the words of whoever had it; what was found out, with paths \
and names; what was changed, file by file; what was tried and did not work; what is left to do, and the next step. \
Leave out what no longer matters. Write nothing else.";
const SUMMARY_FOLLOWS: &str = "[the work so far was put into a summary to make room; the last steps follow it as they \
were]";

/// Why the conversation is made smaller.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trigger {
    /// It comes near the window.
    NearlyFull,
    /// The other side says that it is too long.
    Refused,
}

/// How large the conversation is, as far as that is known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Size {
    /// What the last answer reported, itself included.
    reported_tokens: u64,
    /// What was added since.
    added_bytes: u64,
}

impl Size {
    pub(super) fn add(&mut self, content: &[ContentBlock]) {
        self.added_bytes = self.added_bytes.saturating_add(bytes(content));
    }

    /// Takes what an answer reports; one that reports nothing changes nothing.
    pub(super) fn report(&mut self, reply: &Reply) {
        let usage = reply.usage;
        let read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
        if read > 0 {
            *self = Self { reported_tokens: read + usage.output_tokens, added_bytes: 0 };
        } else {
            self.add(&reply.content);
        }
    }

    pub(super) fn of(messages: &[Message]) -> Self {
        let added_bytes = messages.iter().map(|message| bytes(&message.content)).sum();
        Self { reported_tokens: 0, added_bytes }
    }

    fn tokens(self) -> u64 {
        self.reported_tokens.saturating_add(self.added_bytes / BYTES_A_TOKEN)
    }
}

/// As they are sent.
fn bytes(content: &[ContentBlock]) -> u64 {
    serde_json::to_vec(content).map_or(0, |encoded| encoded.len() as u64)
}

impl Run {
    /// Most characters that the results of one turn may have together.
    pub(super) fn results_max_chars(&self) -> usize {
        self.config.context_window as usize / RESULTS_SHARE as usize * BYTES_A_TOKEN as usize
    }

    /// Makes room when the next call could need more than there is.
    pub(super) async fn make_room(&mut self) -> Result<(), NoReply> {
        // The answer needs room too, and the count is an estimate.
        let limit = u64::from(self.config.context_window.saturating_sub(self.config.max_tokens)) / 10 * 9;
        if self.conversation.size().tokens() > limit {
            self.compact(Trigger::NearlyFull).await?;
        }
        Ok(())
    }

    /// Puts all but the last turns into a summary; whether there was anything to put into one.
    pub(super) async fn compact(&mut self, trigger: Trigger) -> Result<bool, NoReply> {
        let kept_bytes = u64::from(self.config.context_window / KEPT_SHARE) * BYTES_A_TOKEN;
        let Some((past, kept)) = split(self.conversation.messages(), kept_bytes) else {
            return Ok(self.shorten(kept_bytes));
        };
        let before = (self.conversation.messages().len(), self.conversation.size().tokens());
        let summary = self.summarise(&past).await?;
        let mut messages = vec![beginning(&past, &summary)];
        messages.extend(kept);
        let after = (messages.len(), Size::of(&messages).tokens());
        self.conversation.replace(messages);
        self.save();
        let trigger = match trigger {
            Trigger::NearlyFull => "nearly_full",
            Trigger::Refused => "refused",
        };
        tracing::info!(
            turn = self.turns,
            trigger,
            tokens = before.1,
            "the conversation was put into a summary"
        );
        let metadata = json!({
            "subtype": "compacted",
            "trigger": trigger,
            "messages_before": before.0,
            "messages_after": after.0,
            "tokens_before": before.1,
            "tokens_after": after.1,
            "summary": clip(&summary, TASK_MAX_CHARS),
        });
        self.events.emit(AgentEvent::SystemMessage { turn: self.turns, metadata });
        Ok(true)
    }

    /// There is nothing but the last turn: its results are cut; whether any was long enough for that.
    fn shorten(&mut self, kept_bytes: u64) -> bool {
        let mut messages = self.conversation.messages().to_vec();
        if !cut_results(&mut messages, kept_bytes) {
            return false;
        }
        self.conversation.replace(messages);
        self.save();
        true
    }

    async fn summarise(&mut self, past: &[Message]) -> Result<String, NoReply> {
        // In words, not as messages: no model then takes it for its own turn, and nothing has to be paired.
        let record = record::written(past, self.config.context_window as usize * 2);
        let request = MessagesRequest {
            model: self.model.clone(),
            max_tokens: self.config.max_tokens.min(SUMMARY_MAX_TOKENS),
            system: vec![SystemBlock::plain(SUMMARY_SYSTEM)],
            messages: vec![Message { role: Role::User, content: vec![ContentBlock::text(&record)] }],
            tools: Vec::new(),
            thinking: None,
            stream: true,
        };
        let reply = self.call_model(request).await?;
        let words: Vec<&str> = reply.content.iter().filter_map(words).collect();
        let summary = words.join("\n").trim().to_owned();
        // A model that says nothing must not cost the memory of everything.
        Ok(if summary.is_empty() { clip(&record, TASK_MAX_CHARS) } else { summary })
    }
}

fn words(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text { text, .. } => Some(text),
        _ => None,
    }
}

/// The task in its own words, and the summary.
fn beginning(past: &[Message], summary: &str) -> Message {
    let task = past.first().and_then(|first| first.content.iter().find_map(words)).unwrap_or_default();
    let content = vec![
        ContentBlock::text(clip(task, TASK_MAX_CHARS)),
        ContentBlock::text(format!("{SUMMARY_FOLLOWS}\n\n{summary}")),
    ];
    Message { role: Role::User, content }
}
