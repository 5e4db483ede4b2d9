//! Stopping at once, and what a turn's result means.

use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::command::TakeUp;
use super::process;
use super::run::{Progress, Run};
use super::store;
use super::wire::{self, TurnResult};
use crate::{AgentEvent, Ending, ErrorClass, Incoming, RunContext, RunError, Transcript};

/// What became of the wish to stop.
enum Stopped {
    /// Nothing runs any more.
    Idle,
    /// The turn had ended by itself.
    TooLate(TurnResult),
    Over(Ending),
}

impl Run {
    /// Stops what the CLI does and waits until that is seen: its turn is over and its commands are gone.
    ///
    /// First it is asked; a command that does not end in time is killed; a CLI that does not answer in time is
    /// ended, and another one takes its place.
    pub(super) async fn stop_at_once(&mut self, message: Incoming) -> Result<Option<Ending>, RunError> {
        // Kept here until it is in the conversation, however this goes.
        self.interrupt = Some(message);
        self.forget_questions();
        self.process.send(&wire::interrupt(&Uuid::new_v4().to_string()))?;
        let shutdown = self.ctx.shutdown.clone();
        let stopped = tokio::select! {
            biased;
            // What is left of the time is needed for more than this.
            () = shutdown.cancelled() => return Ok(Some(Ending::Cancelled)),
            stopped = self.until_stopped() => stopped?,
        };
        match stopped {
            Stopped::Over(ending) => Ok(Some(ending)),
            Stopped::TooLate(result) => self.turn_over(result),
            Stopped::Idle => {
                self.ctx.events.quiet().await;
                self.interrupted();
                self.rest()
            }
        }
    }

    async fn until_stopped(&mut self) -> Result<Stopped, RunError> {
        let began = Instant::now();
        match timeout_at(began + self.config.interrupt_patience, self.until_turn_over()).await {
            Ok(Ok(TurnEnd::Result(result))) if result.was_aborted() => {
                // Looked for now: what the next turn starts is not to be waited for.
                let commands = self.process.family.commands();
                self.process.family.see_gone(&commands, began + self.config.command_grace).await;
                Ok(Stopped::Idle)
            }
            Ok(Ok(TurnEnd::Result(result))) => Ok(Stopped::TooLate(result)),
            Ok(Ok(TurnEnd::Over(ending))) => Ok(Stopped::Over(ending)),
            Ok(Err(error)) => Err(error),
            Err(_) => self.replace_process().await.map(|()| Stopped::Idle),
        }
    }

    /// Tells that it was stopped, and keeps the words that came with that.
    pub(super) fn interrupted(&mut self) {
        let Some(message) = self.interrupt.take() else { return };
        let words = message.content.trim();
        let reason = if words.is_empty() { format!("by {}", message.sender) } else { words.to_owned() };
        self.ctx.events.emit(AgentEvent::Interrupted {
            reason,
            message_id: Some(message.message_id.clone()),
            turn: self.story.turns,
        });
        self.outbox.hold(message);
    }

    /// Goes on reading until the CLI has ended its turn.
    pub(super) async fn until_turn_over(&mut self) -> Result<TurnEnd, RunError> {
        loop {
            let read = self.process.next_line().await;
            match self.line(read).await? {
                Progress::On => {}
                Progress::TurnOver(result) => return Ok(TurnEnd::Result(result)),
                Progress::Over(ending) => return Ok(TurnEnd::Over(ending)),
            }
        }
    }

    async fn replace_process(&mut self) -> Result<(), RunError> {
        tracing::warn!("the agent's program did not stop when asked; it is ended");
        self.process.end(self.config.end_grace).await;
        self.story.calls.give_up("[interrupted]");
        self.story.next_process();
        self.answering = false;
        let (take_up, conversation) = self.what_is_left()?;
        self.outbox.next_process(conversation.as_ref());
        self.process = process::start(&self.config, &self.ctx, &take_up)?;
        Ok(())
    }

    /// What a next process goes on with: the conversation as it was kept, or what the first one began with.
    fn what_is_left(&self) -> Result<(TakeUp, Option<Transcript>), RunError> {
        let RunContext { home, cwd, session_id, .. } = &self.ctx;
        let lost = |error: std::io::Error| {
            let message = format!("the conversation cannot be taken up again: {error}");
            RunError { class: ErrorClass::Crashed, message }
        };
        match store::find(home, cwd, session_id).map_err(lost)? {
            Some(kept) if kept.mentions(store::SAID_BY_SOMEBODY) => Ok((TakeUp::Same, Some(kept))),
            kept => {
                if kept.is_some() {
                    // A name that is taken cannot be given again.
                    store::remove(home, cwd, session_id).map_err(lost)?;
                }
                Ok((self.take_up.clone(), None))
            }
        }
    }
}

/// How a turn came to its end.
pub(super) enum TurnEnd {
    Result(TurnResult),
    Over(Ending),
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
