//! Stopping at once.

use tokio::time::{Instant, timeout_at};

use super::run::{Progress, Run};
use super::start::open;
use super::wire;
use crate::child::Read;
use crate::{AgentEvent, Ending, ErrorClass, Incoming, RunError};

impl Run {
    /// Stops what the agent does and waits until that is seen: its turn is over and its commands are gone.
    ///
    /// First it is asked; a command that does not end in time is killed; an agent that does not answer in time is
    /// ended, and another one takes its place.
    pub(super) async fn stop_at_once(&mut self, message: Incoming) -> Result<Option<Ending>, RunError> {
        let began = Instant::now();
        // Not what it was told already: of that the agent drops what it had not come to.
        let had_words = self.outbox.has_words();
        // Kept from now on, however this goes.
        self.outbox.hold(message.clone());
        let was_calling = self.story.calls.is_empty();
        self.withdraw_questions()?;
        self.process.send(&wire::cancel(&self.session))?;
        self.is_stopping = true;
        let stopped = self.until_stopped(began).await?;
        self.is_stopping = false;
        let gone = match stopped {
            Stopped::Over(ending) => return Ok(Some(ending)),
            Stopped::Idle if was_calling && self.config.agent.preset().lets_calls_linger => {
                // Its turn is over and written down; in the call that it keeps it would not hear a signal for long.
                self.process.end(self.config.command_grace).await;
                true
            }
            Stopped::Idle => {
                // Looked for now: what the next turn starts is not to be waited for.
                let commands = self.process.family.commands();
                self.process.family.see_gone(&commands, began + self.config.command_grace).await;
                false
            }
            Stopped::Deaf => {
                tracing::warn!("the agent's program did not stop when asked; it is ended");
                self.process.end(self.config.command_grace).await;
                true
            }
        };
        self.story.end_answer();
        self.story.calls.give_up("[interrupted]");
        self.outbox.dropped();
        self.ctx.events.quiet().await;
        let words = message.content.trim();
        let is_silent = words.is_empty();
        let reason = if is_silent { format!("by {}", message.sender) } else { words.to_owned() };
        let turn = self.story.turns;
        self.ctx.events.emit(AgentEvent::Interrupted { reason, message_id: Some(message.message_id), turn });
        // Only now: nobody who waits for the stop has to wait for this.
        if gone {
            self.next_process().await?;
        } else if !was_calling && self.config.agent.preset().keeps_open_calls {
            self.take_up_again().await?;
        }
        if is_silent && !had_words {
            // Who only wants it to stop does not want it to go on with what it was stopped in.
            return Ok(self.wait_for_words());
        }
        self.rest()
    }

    /// Nobody is to decide any more what the agent asked for.
    pub(super) fn withdraw_questions(&mut self) -> Result<(), RunError> {
        self.asking.abort_all();
        for (_, (id, _)) in self.asked.drain() {
            self.process.send(&wire::chosen(&id, None))?;
        }
        Ok(())
    }

    /// Goes on reading until the agent has ended its turn; gives the ending if it comes to one.
    pub(super) async fn until_turn_over(&mut self) -> Result<Option<Ending>, RunError> {
        loop {
            let read = self.process.next_line().await;
            if let Some(end) = self.turn_end(read).await? {
                return Ok(end);
            }
        }
    }

    /// Reads until the agent has ended its turn; commands that do not let it are killed on the way.
    async fn until_stopped(&mut self, began: Instant) -> Result<Stopped, RunError> {
        let (grace, patience) = (began + self.config.command_grace, began + self.config.interrupt_patience);
        let mut is_patient = true;
        loop {
            match timeout_at(if is_patient { grace } else { patience }, self.process.next_line()).await {
                Ok(read) => match self.turn_end(read).await? {
                    Some(None) => return Ok(Stopped::Idle),
                    Some(Some(ending)) => return Ok(Stopped::Over(ending)),
                    None => {}
                },
                Err(_) if is_patient => {
                    is_patient = false;
                    let commands = self.process.family.commands();
                    self.process.family.see_gone(&commands, grace).await;
                }
                Err(_) => return Ok(Stopped::Deaf),
            }
        }
    }

    /// Whether this line ends the turn, and with what ending if it comes to one.
    async fn turn_end(&mut self, read: Option<Read>) -> Result<Option<Option<Ending>>, RunError> {
        Ok(match self.line(read).await? {
            Progress::On => None,
            Progress::TurnOver(_) => Some(None),
            // A call that was cut off is no failure of the run.
            Progress::Over(Ending::Failed(error)) if error.class != ErrorClass::Crashed => Some(None),
            Progress::Over(ending) => Some(Some(ending)),
        })
    }

    /// Ends the process; another one takes the session up.
    pub(super) async fn replace_process(&mut self) -> Result<(), RunError> {
        self.process.end(self.config.end_grace).await;
        self.next_process().await
    }

    async fn next_process(&mut self) -> Result<(), RunError> {
        if !self.can_load {
            let title = self.config.agent.preset().known.title;
            let message =
                format!("{title} was ended because it did not stop, and cannot take its session up again");
            return Err(RunError { class: ErrorClass::Crashed, message });
        }
        let open = open(&self.config, &self.ctx, &self.dir, Some(self.session.clone())).await?;
        self.process = open.process;
        self.next_id = open.next_id;
        // Its prompts are counted anew.
        self.cut.before = 0;
        Ok(())
    }
}

/// What became of the wish to stop.
enum Stopped {
    /// The turn is over.
    Idle,
    /// It does not answer.
    Deaf,
    Over(Ending),
}
