//! What somebody is asked before the CLI may use a tool.

use serde_json::Value;
use tokio::task::{self, JoinError};

use super::run::Run;
use super::wire;
use crate::{AgentEvent, Answer, Question, RunError};

impl Run {
    /// Asks in a task of its own, so that everything else goes on.
    pub(super) fn ask(&mut self, request_id: String, question: Question) {
        let message = format!("asks whether it may use {}", question.tool);
        self.ctx.events.emit(AgentEvent::Waiting { message });
        let (asks, asked, answers_to) = (self.ctx.asks.clone(), question.input.clone(), request_id.clone());
        let asking =
            self.asking.spawn(async move { wire::permission(&answers_to, asks.ask(question).await, asked) });
        self.asked.insert(request_id, asking);
    }

    /// Passes an answer on. Whoever was asked and broke down has not allowed anything.
    pub(super) fn answer(&mut self, answer: Result<(task::Id, Value), JoinError>) -> Result<(), RunError> {
        let id = answer.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let request_id =
            self.asked.iter().find(|(_, asking)| asking.id() == id).map(|(name, _)| name.clone());
        // The CLI no longer wants to know, or was interrupted.
        let Some(request_id) = request_id else { return Ok(()) };
        self.asked.remove(&request_id);
        let refused = || {
            let message = "nobody could be asked".to_owned();
            wire::permission(&request_id, Answer::Deny { message }, Value::Null)
        };
        self.process.send(&answer.map_or_else(|_| refused(), |(_, line)| line))
    }

    /// What was asked no longer matters.
    pub(super) fn forget_questions(&mut self) {
        self.asked.clear();
        self.asking.abort_all();
    }
}
