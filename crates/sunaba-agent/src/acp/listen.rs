//! What the agent says, line by line: told on, answered, or acted upon.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::run::{Decision, Phase, Progress, Run};
use super::wire::{self, Heard, Permission, Refusal, TurnEnd, Update};
use super::{gemini, translate};
use crate::child::Read;
use crate::tools::ToolCall;
use crate::{AgentEvent, Answer, Ending, PermissionMode, Question, RunError};

/// Of a file that an agent reads or writes by way of us.
const FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How long an agent may take to tell what it asks about.
const INPUT_PATIENCE: Duration = Duration::from_secs(5);

impl Run {
    pub(super) async fn line(&mut self, read: Option<Read>) -> Result<Progress, RunError> {
        let bytes = match read {
            None => return Ok(Progress::Over(self.crashed().await)),
            Some(Read::TooLong { size_bytes, .. }) => {
                self.story.unreadable(size_bytes, b"", "longer than a line may be");
                return Ok(Progress::On);
            }
            Some(Read::Whole(bytes)) if bytes.trim_ascii().is_empty() => return Ok(Progress::On),
            Some(Read::Whole(bytes)) => bytes,
        };
        match Heard::read(&bytes) {
            Ok(heard) => self.understand(heard).await,
            Err(error) => {
                self.story.unreadable(bytes.len(), &bytes, &error.to_string());
                Ok(Progress::On)
            }
        }
    }

    async fn understand(&mut self, heard: Heard) -> Result<Progress, RunError> {
        match heard {
            Heard::Update(mut update) => {
                if let Update::ToolCall(news) | Update::ToolChanged(news) = &mut update {
                    self.complete(news).await;
                }
                return Ok(self.updated(update).await);
            }
            Heard::Asked { id, method, params } => return self.asked_for(id, &method, params).await,
            Heard::Answered { id, answer } => return self.answered(id, answer),
            Heard::Other => {}
        }
        Ok(Progress::On)
    }

    /// Adds what an agent leaves out of the news of a call.
    async fn complete(&self, news: &mut wire::ToolNews) {
        if let Some(record) = &self.record {
            gemini::complete(news, record).await;
        }
    }

    async fn updated(&mut self, update: Update) -> Progress {
        if self.story.begins_answer(&update) {
            if self.story.turns >= self.ctx.max_turns {
                return Progress::Over(Ending::MaxTurns);
            }
            self.story.next_turn();
            if matches!(self.phase, Phase::Between(_)) {
                self.phase = Phase::Busy;
            }
            for message in self.outbox.entered(self.story.turns) {
                self.ctx.events.emit(AgentEvent::message_injected(self.story.turns, message));
            }
        }
        self.story.tell(update).await;
        Progress::On
    }

    /// A prompt is answered: the turn is over, unless another one is.
    fn answered(&mut self, id: u64, answer: Result<Value, Refusal>) -> Result<Progress, RunError> {
        let Some(unseen) = self.outbox.answered(id) else { return Ok(Progress::On) };
        let end: TurnEnd = match answer {
            Ok(end) => serde_json::from_value(end).unwrap_or_default(),
            Err(refusal) => return self.gave_up(id, &refusal, unseen),
        };
        if end.stop_reason == "cancelled" {
            self.outbox.hold_first(unseen);
        } else {
            for message in unseen {
                self.ctx.events.emit(AgentEvent::message_injected(self.story.turns, message));
            }
        }
        if let Some(used) = &end.usage {
            self.story.usage.add(used.usage());
        }
        if self.outbox.is_under_way() && end.stop_reason != "cancelled" {
            self.between();
            return Ok(Progress::On);
        }
        self.story.end_answer();
        if end.stop_reason == "cancelled" {
            self.story.calls.give_up("[interrupted]");
        }
        Ok(Progress::TurnOver(end))
    }

    async fn asked_for(&mut self, id: Value, method: &str, params: Value) -> Result<Progress, RunError> {
        let answer = match method {
            "session/request_permission" => match serde_json::from_value(params) {
                Ok(permission) => return self.permission(id, permission).await,
                Err(error) => Err(error.to_string()),
            },
            "fs/read_text_file" => read_file(&params).await,
            "fs/write_text_file" => write_file(&params).await,
            other => Err(format!("{other} is not known here")),
        };
        self.process.send(&match answer {
            Ok(result) => wire::result(&id, &result),
            Err(reason) => wire::refusal(&id, &reason),
        })?;
        Ok(Progress::On)
    }

    /// May it? Answered at once where the mode says so.
    async fn permission(&mut self, id: Value, permission: Permission) -> Result<Progress, RunError> {
        let (allow, reject) = (permission.choice(true), permission.choice(false));
        let mut news = permission.tool_call;
        self.complete(&mut news).await;
        let kind = news.kind.clone().unwrap_or_default();
        let call_id = news.tool_call_id.clone();
        let asked_about = ToolCall {
            id: call_id.clone(),
            name: translate::tool_name(&news),
            input: news.raw_input.as_ref().map(translate::input).unwrap_or_default(),
        };
        // Some tell of a call only by asking.
        if !self.story.calls.is_open(&call_id)
            && let over @ Progress::Over(_) = self.updated(Update::ToolCall(news.clone())).await
        {
            return Ok(over);
        }
        // What the question says of the arguments may be in other words than the call's own.
        let is_known =
            self.story.calls.asked(&call_id).is_some_and(|call| translate::says_something(&call.input));
        self.story.calls.learn(wire::ToolNews { raw_input: None, ..news }, is_known).await;
        let call = self.story.calls.asked(&call_id).unwrap_or(asked_about);
        let is_granted = match self.ctx.permission_mode {
            PermissionMode::Bypass => true,
            PermissionMode::AcceptEdits => kind == "edit" && self.story.calls.stays_inside(&call_id),
            PermissionMode::Ask => false,
        };
        if is_granted {
            self.process.send(&wire::chosen(&id, allow))?;
            return Ok(Progress::On);
        }
        let message = format!("asks whether it may use {}", call.name);
        self.ctx.events.emit(AgentEvent::Waiting { message });
        let (asks, answers_to, tool) = (self.ctx.asks.clone(), id.clone(), call.name.clone());
        let mut question = Question { tool_use_id: call.id, tool: call.name, input: call.input };
        let inputs = self.story.calls.inputs(&call_id);
        let asking = self.asking.spawn(async move {
            make_clear(&mut question, inputs).await;
            Decision { answer: asks.ask(question).await, id: answers_to, tool, allow, reject }
        });
        self.asked.insert(id.to_string(), (id, asking));
        Ok(Progress::On)
    }

    /// Somebody has decided. The protocol has a yes and a no, without words: those follow as a prompt.
    pub(super) fn decided(&mut self, decision: Decision) -> Result<(), RunError> {
        let Decision { id, answer, tool, allow, reject } = decision;
        self.asked.remove(&id.to_string());
        let denial = match answer {
            Answer::Allow { instead: None } => return self.process.send(&wire::chosen(&id, allow)),
            Answer::Allow { instead: Some(other) } => {
                format!("[{tool} was not allowed as you asked for it] Do this instead: {other}")
            }
            Answer::Deny { message } => format!("[{tool} was not allowed] {message}"),
        };
        self.outbox.remark(denial);
        // Before the answer, so that it is there when the model is asked again.
        self.flush()?;
        if self.config.agent.preset().keeps_open_calls {
            self.process.send(&wire::cancel(&self.session))?;
        }
        self.process.send(&wire::chosen(&id, reject))
    }
}

/// Some agents ask before they have told what about; that follows at once.
async fn make_clear(question: &mut Question, inputs: Option<watch::Receiver<Value>>) {
    let Some(mut inputs) = inputs.filter(|_| !translate::says_something(&question.input)) else { return };
    let told = timeout(INPUT_PATIENCE, inputs.wait_for(translate::says_something)).await;
    if let Ok(Ok(input)) = told {
        question.input = input.clone();
    }
}

async fn read_file(params: &Value) -> Result<Value, String> {
    let path = path(params)?;
    let found = tokio::fs::metadata(path).await.map_err(|error| error.to_string())?;
    if !found.is_file() || found.len() > FILE_MAX_BYTES {
        return Err(format!("{} is no file, or too large", path.display()));
    }
    let text = tokio::fs::read_to_string(path).await.map_err(|error| error.to_string())?;
    let number = |name: &str| params.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let content: String = match (number("line"), number("limit")) {
        (None, None) => text,
        (line, limit) => text
            .split_inclusive('\n')
            .skip(line.unwrap_or(1).saturating_sub(1))
            .take(limit.unwrap_or(usize::MAX))
            .collect(),
    };
    Ok(json!({ "content": content }))
}

async fn write_file(params: &Value) -> Result<Value, String> {
    let content = params.get("content").and_then(Value::as_str).unwrap_or_default();
    tokio::fs::write(path(params)?, content).await.map_err(|error| error.to_string())?;
    Ok(json!({}))
}

fn path(params: &Value) -> Result<&Path, String> {
    let path = params.get("path").and_then(Value::as_str).ok_or("a path is missing")?;
    let path = Path::new(path);
    if path.is_absolute() { Ok(path) } else { Err("a path has to begin at the root".to_owned()) }
}
