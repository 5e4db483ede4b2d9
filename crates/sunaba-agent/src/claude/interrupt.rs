//! Stopping at once, and what a turn's result means.

use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::command::TakeUp;
use super::process::Process;
use super::run::{Progress, Run};
use super::store;
use super::wire::{self, TurnResult};
use crate::{AgentEvent, Ending, ErrorClass, Incoming, RunError};

impl Run {
    /// Stops what the CLI does and waits until that is seen: its turn is over and its commands are gone.
    ///
    /// First it is asked; a command that does not end in time is killed; a CLI that does not answer in time is
    /// ended, and another one takes its place.
    pub(super) async fn stop_at_once(&mut self, message: Incoming) -> Result<Option<Ending>, RunError> {
        let began = Instant::now();
        self.asking.abort_all();
        self.process.send(&wire::interrupt(&Uuid::new_v4().to_string()))?;
        match timeout_at(began + self.config.interrupt_patience, self.until_turn_over()).await {
            Ok(Ok(None)) => {
                // Looked for now: what the next turn starts is not to be waited for.
                let commands = self.process.family.commands();
                self.process.family.see_gone(&commands, began + self.config.command_grace).await;
            }
            Ok(Ok(Some(ending))) => return Ok(Some(ending)),
            Ok(Err(error)) => return Err(error),
            Err(_) => self.replace_process().await?,
        }
        let words = message.content.trim();
        let reason = if words.is_empty() { format!("by {}", message.sender) } else { words.to_owned() };
        self.ctx.events.emit(AgentEvent::Interrupted {
            reason,
            message_id: Some(message.message_id.clone()),
            turn: self.story.turns,
        });
        self.outbox.hold(message);
        self.rest()
    }

    /// Goes on reading until the CLI has ended its turn; gives the ending if it comes to one.
    pub(super) async fn until_turn_over(&mut self) -> Result<Option<Ending>, RunError> {
        loop {
            let read = self.process.next_line().await;
            match self.line(read).await? {
                Progress::On => {}
                Progress::TurnOver(_) => return Ok(None),
                Progress::Over(ending) => return Ok(Some(ending)),
            }
        }
    }

    async fn replace_process(&mut self) -> Result<(), RunError> {
        tracing::warn!("the agent's program did not stop when asked; it is ended");
        self.process.end(self.config.end_grace).await;
        self.story.calls.give_up("[interrupted]");
        self.story.next_process();
        let id = &self.ctx.session_id;
        let take_up = match store::find(&self.ctx.home, &self.ctx.cwd, id) {
            Ok(Some(_)) => TakeUp::Same,
            Ok(None) | Err(_) => TakeUp::New,
        };
        self.process = Process::start(&self.config, &self.ctx, &take_up)?;
        for line in self.outbox.again() {
            self.process.send(&line)?;
        }
        Ok(())
    }
}

impl TurnResult {
    /// Whether the turn ended because it was interrupted.
    pub(super) fn was_aborted(&self) -> bool {
        self.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted"))
    }

    /// Why the turn did not succeed; none when it did.
    pub(super) fn failure(&self, turns: u32) -> Option<Ending> {
        if self.subtype == "error_max_turns" {
            tracing::info!(turns, "the turns are used up");
            return Some(Ending::MaxTurns);
        }
        if !self.is_error && self.subtype == "success" {
            return None;
        }
        let message = if self.result.is_empty() { self.errors.join("; ") } else { self.result.clone() };
        let message =
            if message.is_empty() { format!("Claude Code gave up: {}", self.subtype) } else { message };
        Some(Ending::Failed(RunError { class: self.error_class(), message }))
    }

    fn error_class(&self) -> ErrorClass {
        match self.api_error_status {
            Some(429) => ErrorClass::RateLimited,
            Some(401 | 403) => ErrorClass::Auth,
            Some(408 | 500..=599) => ErrorClass::Overloaded,
            Some(_) => ErrorClass::InvalidRequest,
            None => ErrorClass::Network,
        }
    }
}
