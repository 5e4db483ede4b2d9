//! The loop itself.

use std::sync::Arc;

use sunaba_llm::{Client, ContentBlock, MessagesRequest, Reply, SystemBlock, Thinking, Usage};
use tokio_util::sync::CancellationToken;

use super::NativeConfig;
use super::call::NoReply;
use super::context::{Trigger, fit};
use super::conversation::Conversation;
use super::hands::{Batch, Hands};
use super::session::SessionFile;
use super::steering::{Steering, Stop, Waited, spoken};
use crate::tools::{ToolCall, ToolReply};
use crate::{AgentEvent, Ending, ErrorClass, EventSink, RunError, RunOutcome};

/// How often a window may turn out to be half of what was thought, for one answer.
const HALVINGS_MAX: usize = 4;
const GO_ON: &str = "[your answer was cut off at its token limit; go on from where it ended]";

pub(super) fn tell_error(events: &dyn EventSink, phase: &'static str, error: &RunError) {
    events.emit(AgentEvent::Error { error: error.message.clone(), phase, error_class: error.class });
}

/// A task in the making.
pub(super) struct Run {
    pub(super) config: NativeConfig,
    pub(super) client: Client,
    pub(super) session_id: String,
    pub(super) model: String,
    pub(super) max_turns: u32,
    /// Most tokens that it may use in all; as many as it likes when there is no bound.
    pub(super) max_total_tokens: Option<u64>,
    pub(super) system: String,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) steering: Steering,
    pub(super) conversation: Conversation,
    /// Where the conversation is saved; none when that is not possible.
    pub(super) file: Option<SessionFile>,
    pub(super) hands: Hands,
    /// As the model is willing to think.
    pub(super) thinking: Option<Thinking>,
    /// Model calls begun; a call that is tried again counts once.
    pub(super) turns: u32,
    pub(super) usage: Usage,
    pub(super) final_output: String,
}

impl Run {
    pub(super) async fn until_the_end(mut self, prompt: &str) -> RunOutcome {
        self.conversation.push_user(vec![ContentBlock::text(prompt)]);
        self.events.emit(AgentEvent::user_message(0, prompt));
        let ending = loop {
            if let Some(ending) = self.turn().await {
                break ending;
            }
        };
        self.save();
        if let Ending::Failed(error) = &ending {
            tell_error(&*self.events, "model_call", error);
        }
        RunOutcome {
            ending,
            turns: self.turns,
            usage: self.usage,
            session_id: self.session_id,
            transcript: self.file.and_then(|file| file.transcript().ok()),
            final_output: self.final_output,
            undelivered: self.steering.close(),
        }
    }

    /// One model call and what it asks for; gives the ending when there is one.
    async fn turn(&mut self) -> Option<Ending> {
        if let Some(stop) = self.steering.take_ready() {
            return self.stopped(stop).await;
        }
        // Before messages are taken in: one that no call would carry must not count as consumed.
        if self.turns >= self.max_turns {
            return Some(Ending::MaxTurns);
        }
        if let Some(error) = self.tokens_used_up() {
            return Some(Ending::Failed(error));
        }
        self.turns += 1;
        self.take_in_messages();
        self.save();
        let reply = match self.next_reply().await {
            Ok(reply) => reply,
            Err(NoReply::Stopped(stop)) => return self.stopped(stop).await,
            Err(NoReply::Failed(error) | NoReply::TooLong(error)) => return Some(Ending::Failed(error)),
        };
        self.tell_reply(&reply);
        let calls = tool_calls(&reply.content);
        self.conversation.push_assistant(&reply);
        // Before the tools run: whoever goes on after a kill has to know what may have been done.
        self.save();
        if calls.is_empty() {
            return self.without_tools(reply.stop_reason);
        }
        match self.run_tools(&calls, &reply.unusable_tool_inputs).await {
            Some(stop) => self.stopped(stop).await,
            None => None,
        }
    }

    fn tokens_used_up(&self) -> Option<RunError> {
        let Usage { input_tokens, output_tokens, cache_write_tokens, .. } = self.usage;
        let max =
            self.max_total_tokens.filter(|max| input_tokens + output_tokens + cache_write_tokens >= *max)?;
        Some(RunError { class: ErrorClass::MaxTurns, message: format!("its {max} tokens are used up") })
    }

    /// The model's answer to all that was said, with room made for it.
    async fn next_reply(&mut self) -> Result<Reply, NoReply> {
        let mut answer = match self.make_room().await {
            Ok(()) => self.call_model(self.request()).await,
            // Summing it up was too much already.
            Err(error) => Err(error),
        };
        for _ in 0..HALVINGS_MAX {
            let Err(NoReply::TooLong(error)) = answer else { break };
            // How large a window is, only the other side knows for sure; what was found out counts from now on.
            self.config.context_window /= 2;
            answer = match self.compact(Trigger::Refused).await {
                Ok(true) => self.call_model(self.request()).await,
                Ok(false) => Err(NoReply::Failed(error)),
                Err(error) => Err(error),
            };
        }
        answer
    }

    /// The model asks for nothing more: the end, unless it was cut off or somebody spoke meanwhile.
    fn without_tools(&mut self, stop_reason: Option<String>) -> Option<Ending> {
        match stop_reason.as_deref() {
            Some("max_tokens") => {
                self.conversation.push_user(vec![ContentBlock::text(GO_ON)]);
                None
            }
            Some("pause_turn") => None,
            _ => {
                // One last look; an interrupt that is found here has nothing left to stop but may have words.
                if let Some(Stop::Interrupt(message)) = self.steering.take_ready() {
                    self.steering.keep(message);
                }
                if self.steering.has_words() {
                    return None;
                }
                let stop_reason = stop_reason.unwrap_or_else(|| "end_turn".to_owned());
                Some(Ending::Completed { stop_reason })
            }
        }
    }

    /// Puts what was said into the conversation that is about to be sent, then tells so.
    fn take_in_messages(&mut self) {
        let messages = self.steering.take_pending();
        let blocks = messages.iter().map(|message| ContentBlock::text(spoken(message))).collect();
        self.conversation.push_user(blocks);
        for message in messages {
            self.events.emit(AgentEvent::message_injected(self.turns, message));
        }
    }

    fn request(&self) -> MessagesRequest {
        MessagesRequest {
            model: self.model.clone(),
            max_tokens: self.config.max_tokens,
            system: vec![SystemBlock::cached(&self.system)],
            messages: self.conversation.for_request(),
            tools: self.hands.offered().to_vec(),
            thinking: self.thinking,
            stream: true,
        }
    }

    fn tell_reply(&mut self, reply: &Reply) {
        let turn = self.turns;
        self.events.emit(AgentEvent::AssistantMessage {
            turn,
            model: if reply.model.is_empty() { self.model.clone() } else { reply.model.clone() },
            stop_reason: reply.stop_reason.clone(),
            block_count: reply.content.len(),
        });
        let mut words = Vec::new();
        for block in &reply.content {
            match block {
                ContentBlock::Text { text, .. } if !text.trim().is_empty() => {
                    words.push(text.as_str());
                    self.events.emit(AgentEvent::message(turn, text));
                }
                ContentBlock::Thinking { thinking, .. } => {
                    self.events.emit(AgentEvent::thinking(turn, thinking));
                }
                _ => {
                    if let Some(call) = tool_call(block) {
                        self.events.emit(AgentEvent::tool_use(turn, &call));
                    }
                }
            }
        }
        if !words.is_empty() {
            self.final_output = words.join("\n");
        }
    }

    /// Runs the tools and puts every result into the conversation, all in one message; gives the reason to stop, if
    /// one came meanwhile.
    async fn run_tools(&mut self, calls: &[ToolCall], unusable: &[String]) -> Option<Stop> {
        let (mut replies, stopped) = self.until_done_or_stopped(calls, unusable).await;
        for used in replies.iter().filter_map(|reply| reply.used) {
            self.usage.add(used);
        }
        fit(&mut replies, self.results_max_chars());
        let results = calls.iter().zip(replies);
        let results =
            results.map(|(call, reply)| ContentBlock::tool_result(&call.id, reply.content, reply.is_error));
        self.conversation.push_user(results.collect());
        self.save();
        stopped
    }

    async fn until_done_or_stopped(
        &mut self,
        calls: &[ToolCall],
        unusable: &[String],
    ) -> (Vec<ToolReply>, Option<Stop>) {
        let batch = Batch { turn: self.turns, calls, unusable };
        let halt = CancellationToken::new();
        let mut work = std::pin::pin!(self.hands.run(&batch, &halt));
        tokio::select! {
            biased;
            stop = self.steering.stop_signal() => {
                halt.cancel();
                // Every tool ends what it started before it answers, and bounds that.
                (work.await, Some(stop))
            }
            replies = &mut work => (replies, None),
        }
    }

    /// Everything is let go; an interrupt then waits for words, unless there are some already.
    async fn stopped(&mut self, stop: Stop) -> Option<Ending> {
        let Stop::Interrupt(message) = stop else { return Some(Ending::Cancelled) };
        self.events.quiet().await;
        let words = message.content.trim();
        let reason = if words.is_empty() { format!("by {}", message.sender) } else { words.to_owned() };
        self.events.emit(AgentEvent::Interrupted {
            reason,
            message_id: Some(message.message_id.clone()),
            turn: self.turns,
        });
        self.steering.keep(message);
        if self.steering.has_words() {
            return None;
        }
        self.events.emit(AgentEvent::Waiting { message: "interrupted; waiting for a message".to_owned() });
        match self.steering.wait_for_words(self.config.interrupt_wait).await {
            Waited::Words => None,
            Waited::Shutdown => Some(Ending::Cancelled),
            Waited::InVain => Some(Ending::Interrupted),
        }
    }
}

fn tool_calls(content: &[ContentBlock]) -> Vec<ToolCall> {
    content.iter().filter_map(tool_call).collect()
}

fn tool_call(block: &ContentBlock) -> Option<ToolCall> {
    match block {
        ContentBlock::ToolUse { id, name, input } => {
            Some(ToolCall { id: id.clone(), name: name.clone(), input: input.clone() })
        }
        _ => None,
    }
}
