//! Makes the contract's events of what the agent says.
//!
//! The protocol tells pieces of text and tool calls but not where one answer of the model ends and the next begins. That
//! is seen from what comes between: the end of a tool, a count of what was used, or the name of another message.

use std::sync::Arc;

use serde_json::json;

use super::calls::Calls;
use super::preset::Preset;
use super::wire::{Chunk, Update};
use crate::child::Unreadable;
use crate::text::clip;
use crate::{AgentEvent, EventSink, StreamErrorType, Usage};

/// Of one run of words; what is longer is told up to here.
const WORDS_MAX_BYTES: usize = 1024 * 1024;
const ERROR_MAX_CHARS: usize = 4_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Said,
    Thought,
}

pub(super) struct Story {
    events: Arc<dyn EventSink>,
    preset: &'static Preset,
    model: String,
    pub(super) calls: Calls,
    /// Answers of the model.
    pub(super) turns: u32,
    pub(super) usage: Usage,
    pub(super) final_output: String,
    is_answering: bool,
    /// The last answer asked for no tool, and nothing was asked since: what follows is its end, or that it has none.
    spoke_last: bool,
    message_id: Option<String>,
    /// Words that may go on.
    spoken: Option<(Tone, String)>,
    words: Vec<String>,
    blocks: usize,
    asked_for_tools: bool,
    unreadable: Unreadable,
}

impl Story {
    pub(super) fn new(
        events: Arc<dyn EventSink>,
        preset: &'static Preset,
        model: String,
        calls: Calls,
    ) -> Self {
        Self {
            events,
            preset,
            model,
            calls,
            turns: 0,
            usage: Usage::default(),
            final_output: String::new(),
            is_answering: false,
            spoke_last: false,
            message_id: None,
            spoken: None,
            words: Vec::new(),
            blocks: 0,
            asked_for_tools: false,
            unreadable: Unreadable::default(),
        }
    }

    /// Whether the model begins an answer with this.
    pub(super) fn begins_answer(&self, update: &Update) -> bool {
        match update {
            Update::AgentMessageChunk(chunk) | Update::AgentThoughtChunk(chunk) => {
                let is_another = chunk.message_id.is_some()
                    && self.message_id.is_some()
                    && chunk.message_id != self.message_id;
                !chunk.text().is_empty() && !self.is_noise(chunk) && (!self.is_answering || is_another)
            }
            Update::ToolCall(news) => !self.is_answering && !self.calls.is_open(&news.tool_call_id),
            _ => false,
        }
    }

    /// Whether the model had begun with the answer that was awaited last. Some agents count an answer before they tell
    /// that it was cut.
    pub(super) fn has_begun(&self) -> bool {
        self.is_answering || self.spoke_last
    }

    /// An idle agent is asked something.
    pub(super) fn asked_again(&mut self) {
        self.spoke_last = false;
    }

    /// Whether the agent, when it works, waits for the model's next words, which were asked for already.
    pub(super) fn awaits_answer(&self) -> bool {
        !self.is_answering && self.calls.is_empty()
    }

    /// The next answer of the model.
    pub(super) fn next_turn(&mut self) {
        self.end_answer();
        self.turns += 1;
        self.is_answering = true;
    }

    pub(super) async fn tell(&mut self, update: Update) {
        match update {
            Update::AgentMessageChunk(chunk) if self.is_noise(&chunk) => {
                let metadata = json!({"subtype": "notice", "text": chunk.text()});
                self.events.emit(AgentEvent::system_message(self.turns, metadata));
            }
            Update::AgentMessageChunk(chunk) => self.speak(Tone::Said, &chunk),
            Update::AgentThoughtChunk(chunk) => self.speak(Tone::Thought, &chunk),
            Update::ToolCall(news) => {
                self.flush();
                if !self.calls.is_open(&news.tool_call_id) {
                    self.blocks += 1;
                    self.asked_for_tools = true;
                }
                self.calls.begin(self.turns, news).await;
                self.end_answer_after_tools();
            }
            Update::ToolChanged(news) => {
                let was_open = self.calls.is_open(&news.tool_call_id);
                let may_be_told = news.raw_input.is_some();
                self.calls.learn(news, may_be_told).await;
                if was_open {
                    self.end_answer_after_tools();
                }
            }
            Update::Plan { entries } => {
                let metadata = json!({"subtype": "plan", "entries": entries});
                self.events.emit(AgentEvent::system_message(self.turns, metadata));
            }
            Update::Counted {} => self.end_answer(),
            Update::CallFailed { error } => {
                self.stream_error(clip(&error, ERROR_MAX_CHARS), StreamErrorType::StreamInit, true);
            }
            Update::Other => {}
        }
    }

    fn is_noise(&self, chunk: &Chunk) -> bool {
        self.preset.noise.iter().any(|beginning| chunk.text().starts_with(beginning))
    }

    fn speak(&mut self, tone: Tone, chunk: &Chunk) {
        if chunk.message_id.is_some() {
            self.message_id.clone_from(&chunk.message_id);
        }
        if self.spoken.as_ref().is_none_or(|(before, _)| *before != tone) {
            self.flush();
        }
        let text = chunk.text();
        if text.is_empty() {
            return;
        }
        let (_, words) = self.spoken.get_or_insert_with(|| (tone, String::new()));
        let room = WORDS_MAX_BYTES.saturating_sub(words.len());
        words.push_str(&text[..text.floor_char_boundary(room)]);
    }

    /// Words that are whole.
    fn flush(&mut self) {
        let Some((tone, words)) = self.spoken.take().filter(|(_, words)| !words.trim().is_empty()) else {
            return;
        };
        self.blocks += 1;
        match tone {
            Tone::Thought => self.events.emit(AgentEvent::thinking(self.turns, &words)),
            Tone::Said => {
                self.events.emit(AgentEvent::message(self.turns, &words));
                self.words.push(words);
                self.final_output = self.words.join("\n");
            }
        }
    }

    fn end_answer_after_tools(&mut self) {
        if self.calls.is_empty() {
            self.end_answer();
        }
    }

    /// What the model says from now on is another answer.
    pub(super) fn end_answer(&mut self) {
        self.flush();
        if std::mem::take(&mut self.is_answering) {
            self.spoke_last = !self.asked_for_tools;
            let stop_reason = if self.asked_for_tools { "tool_use" } else { "end_turn" };
            self.events.emit(AgentEvent::AssistantMessage {
                turn: self.turns,
                model: self.model.clone(),
                stop_reason: Some(stop_reason.to_owned()),
                block_count: self.blocks,
            });
        }
        self.blocks = 0;
        self.asked_for_tools = false;
        self.words.clear();
    }

    pub(super) fn stream_error(&self, error: String, error_type: StreamErrorType, retrying: bool) {
        self.events.emit(AgentEvent::StreamError { error, error_type, turn: self.turns, retrying });
    }

    /// A line that makes no sense is told and left out; many are counted.
    pub(super) fn unreadable(&mut self, size_bytes: usize, beginning: &[u8], reason: &str) {
        if let Some(metadata) = self.unreadable.count(size_bytes, beginning, reason) {
            self.events.emit(AgentEvent::system_message(self.turns, metadata));
        }
    }
}
