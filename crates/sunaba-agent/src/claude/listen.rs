//! What the CLI says, line by line: told on, answered, or acted upon.

use serde_json::Value;

use super::lost::Lost;
use super::run::{Phase, Progress, Run};
use super::wire::{self, Line, Request};
use crate::child::Read;
use crate::{AgentEvent, Answer, Ending, ErrorClass, PermissionMode, Question, RunError};

impl Run {
    pub(super) async fn line(&mut self, read: Option<Read>) -> Result<Progress, RunError> {
        let bytes = match read {
            None => return Ok(Progress::Over(self.crashed().await)),
            Some(Read::TooLong { size_bytes, pieces }) => {
                self.story.unreadable(size_bytes, b"", "longer than a line may be");
                return self.lost(Lost::of_pieces(&String::from_utf8_lossy(&pieces)));
            }
            Some(Read::Whole(bytes)) if bytes.trim_ascii().is_empty() => return Ok(Progress::On),
            Some(Read::Whole(bytes)) => bytes,
        };
        match serde_json::from_slice(&bytes) {
            Ok(line) => self.understand(line).await,
            Err(error) => {
                self.story.unreadable(bytes.len(), &bytes, &error.to_string());
                self.lost(Lost::of(&bytes))
            }
        }
    }

    /// Nobody is left waiting for what could not be read: neither we for the end of a turn, nor the CLI for an answer.
    fn lost(&self, lost: Lost) -> Result<Progress, RunError> {
        match lost {
            Lost::Nothing => Ok(Progress::On),
            Lost::Request { request_id } => {
                self.process.send(&wire::refusal(&request_id)).map(|()| Progress::On)
            }
            Lost::Result => {
                let message = "Claude Code ended its turn with a result that cannot be read".to_owned();
                Ok(Progress::Over(Ending::Failed(RunError { class: ErrorClass::Protocol, message })))
            }
        }
    }

    async fn understand(&mut self, line: Line) -> Result<Progress, RunError> {
        match line {
            Line::System(fields) => {
                if fields.get("subtype").and_then(Value::as_str) == Some("init") {
                    self.phase = Phase::Busy;
                }
                self.story.system(fields);
            }
            Line::Assistant(said) => self.story.assistant(said),
            Line::User(said) if said.is_replay => self.entered(&said.uuid),
            Line::User(said) => self.story.user(said),
            Line::StreamEvent { event, parent_tool_use_id: None } => {
                match event {
                    wire::StreamEvent::MessageStart { .. } => self.answering = true,
                    wire::StreamEvent::MessageStop {} => self.answering = false,
                    _ => {}
                }
                self.story.stream(event);
                if self.story.turns > self.ctx.max_turns {
                    return Ok(Progress::Over(Ending::MaxTurns));
                }
            }
            Line::StreamEvent { .. } | Line::Other => {}
            Line::Result(result) => {
                self.answering = false;
                self.story.result(&result);
                self.outbox.turn_over();
                return Ok(Progress::TurnOver(result));
            }
            Line::ControlRequest { request_id, request } => self.asked_for(request_id, request).await?,
            Line::ControlResponse { response } => return Ok(self.answered(response)),
            Line::ControlCancelRequest { request_id } => {
                if let Some(asking) = self.asked.remove(&request_id) {
                    asking.abort();
                }
            }
        }
        Ok(Progress::On)
    }

    fn answered(&self, response: wire::Response) -> Progress {
        if response.request_id != wire::INITIALIZE || response.subtype == "success" {
            return Progress::On;
        }
        let reason = response.error.unwrap_or_default();
        let message = format!("Claude Code does not speak the control protocol: {reason}");
        Progress::Over(Ending::Failed(RunError { class: ErrorClass::Protocol, message }))
    }

    /// What we said is in the conversation: of the answer that has begun, or of the next one.
    fn entered(&mut self, uuid: &str) {
        let turn = if self.answering {
            self.story.turns
        } else {
            self.story.asked_again();
            self.story.turns + 1
        };
        for message in self.outbox.entered(uuid) {
            self.ctx.events.emit(AgentEvent::message_injected(turn, message));
        }
    }

    async fn asked_for(&mut self, request_id: String, request: Request) -> Result<(), RunError> {
        match request {
            Request::HookCallback { input }
                if input.hook_event_name == "PreToolUse" && !self.config.tools.permits(&input.tool_name) =>
            {
                self.process.send(&wire::not_offered(&request_id, &input.tool_name))
            }
            Request::HookCallback { input } => {
                match input.hook_event_name.as_str() {
                    "PreToolUse" => self.story.calls.before(self.story.turns, input).await,
                    "PostToolUse" => {
                        self.process.family.reap();
                        self.story.calls.after(input).await;
                    }
                    _ => {}
                }
                self.process.send(&wire::go_on(&request_id))
            }
            Request::CanUseTool { input, .. } if self.ctx.permission_mode == PermissionMode::Bypass => {
                self.process.send(&wire::permission(&request_id, Answer::Allow { instead: None }, input))
            }
            Request::CanUseTool { tool_name, input, tool_use_id } => {
                self.ask(request_id, Question { tool_use_id, tool: tool_name, input });
                Ok(())
            }
            Request::Other => self.process.send(&wire::refusal(&request_id)),
        }
    }
}
