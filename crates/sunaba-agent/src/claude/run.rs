//! The loop between the CLI and whoever talks to it.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use sunaba_types::MessageType;
use tokio::task::{self, AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::calls::Calls;
use super::command::TakeUp;
use super::outbox::Outbox;
use super::start::{never_began, prepare};
use super::story::Story;
use super::wire::{self, TurnResult};
use super::{ClaudeConfig, store};
use crate::child::{Cuts, Process, Read};
use crate::{AgentEvent, Ending, ErrorClass, Incoming, RunContext, RunError, RunOutcome, StreamErrorType};

/// How long the CLI may take to begin with what it has been told before its last turn ended.
pub(super) const NEXT_TURN_PATIENCE: Duration = Duration::from_secs(60);

/// Does one task from its prompt to its outcome.
pub(super) async fn run(config: ClaudeConfig, ctx: RunContext) -> RunOutcome {
    match prepare(&config, &ctx) {
        Ok((process, take_up)) => Run::new(config, ctx, process, take_up).until_the_end().await,
        Err(error) => never_began(ctx, error),
    }
}

/// What the CLI is about, and until when at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// Its first turn is about to begin.
    Starting(Instant),
    /// A turn runs. It may take as long as it likes.
    Busy,
    /// A turn is over, and the next one is about to begin with what it was told meanwhile.
    Between(Instant),
    /// It was interrupted and waits for words.
    Waiting(Instant),
}

/// What a line changed.
pub(super) enum Progress {
    On,
    TurnOver(TurnResult),
    Over(Ending),
}

enum Step {
    Stop,
    Heard(Option<Incoming>),
    Answered(Result<(task::Id, Value), JoinError>),
    Line(Option<Read>),
    Late,
}

/// A task in the making.
pub(super) struct Run {
    pub(super) config: ClaudeConfig,
    pub(super) ctx: RunContext,
    pub(super) process: Process,
    /// Where the conversation began, for as long as there is nothing of its own to go on with.
    pub(super) take_up: TakeUp,
    pub(super) story: Story,
    pub(super) outbox: Outbox,
    pub(super) phase: Phase,
    pub(super) inbox_open: bool,
    /// Somebody interrupts, and there was nothing yet that could be interrupted.
    pub(super) interrupt: Option<Incoming>,
    /// Permissions that somebody is being asked for; their answers as lines.
    pub(super) asking: JoinSet<Value>,
    pub(super) asked: HashMap<String, AbortHandle>,
    /// Between the beginning and the end of an answer of the model.
    pub(super) answering: bool,
    pub(super) cuts: Cuts,
}

impl Run {
    fn new(config: ClaudeConfig, ctx: RunContext, process: Process, take_up: TakeUp) -> Self {
        let calls = Calls::new(ctx.cwd.clone(), ctx.events.clone());
        Self {
            story: Story::new(ctx.events.clone(), calls),
            phase: Phase::Starting(Instant::now() + config.startup_patience),
            config,
            ctx,
            process,
            take_up,
            outbox: Outbox::default(),
            inbox_open: true,
            interrupt: None,
            asking: JoinSet::new(),
            asked: HashMap::new(),
            answering: false,
            cuts: Cuts::default(),
        }
    }

    async fn until_the_end(mut self) -> RunOutcome {
        self.ctx.events.emit(AgentEvent::user_message(0, &self.ctx.prompt));
        let prompt = self.outbox.say(&self.ctx.prompt);
        let ending = match self.process.send(&prompt) {
            Ok(()) => self.converse().await,
            Err(error) => Ending::Failed(error),
        };
        self.let_go(&ending).await;
        if let Ending::Failed(error) = &ending {
            self.ctx.events.emit(AgentEvent::Error {
                error: error.message.clone(),
                phase: "agent",
                error_class: error.class,
            });
        }
        let session_id = self.story.session_id.clone().unwrap_or_else(|| self.ctx.session_id.clone());
        let transcript = store::find(&self.ctx.home, &self.ctx.cwd, &session_id).unwrap_or_else(|error| {
            tracing::warn!(%error, "the conversation cannot be read");
            None
        });
        self.ctx.inbox.close();
        let mut undelivered = self.outbox.left();
        undelivered.extend(self.interrupt);
        undelivered.extend(std::iter::from_fn(|| self.ctx.inbox.try_recv().ok()));
        RunOutcome {
            ending,
            turns: self.story.turns,
            usage: self.story.usage(),
            session_id,
            transcript,
            final_output: self.story.final_output,
            undelivered,
        }
    }

    async fn converse(&mut self) -> Ending {
        loop {
            let step = self.step().await;
            let over = match self.take(step).await {
                Ok(over) => over,
                Err(error) => Some(Ending::Failed(error)),
            };
            if let Some(ending) = over {
                return ending;
            }
            if self.phase == Phase::Busy
                && let Some(message) = self.interrupt.take()
            {
                match self.stop_at_once(message).await {
                    Ok(None) => {}
                    Ok(Some(ending)) => return ending,
                    Err(error) => return Ending::Failed(error),
                }
            }
        }
    }

    async fn step(&mut self) -> Step {
        let may_hear = self.inbox_open && self.outbox.has_room();
        let deadline = match self.phase {
            Phase::Busy => None,
            Phase::Starting(at) | Phase::Between(at) | Phase::Waiting(at) => Some(at),
        };
        tokio::select! {
            biased;
            () = self.ctx.shutdown.cancelled() => Step::Stop,
            received = self.ctx.inbox.recv(), if may_hear => Step::Heard(received),
            Some(answer) = self.asking.join_next_with_id() => Step::Answered(answer),
            line = self.process.next_line() => Step::Line(line),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => Step::Late,
        }
    }

    async fn take(&mut self, step: Step) -> Result<Option<Ending>, RunError> {
        match step {
            Step::Stop => Ok(Some(Ending::Cancelled)),
            Step::Heard(Some(message)) => self.heard(message).map(|()| None),
            Step::Heard(None) => {
                self.inbox_open = false;
                // Nobody can say how to go on any more.
                Ok(matches!(self.phase, Phase::Waiting(_)).then_some(Ending::Interrupted))
            }
            Step::Answered(answer) => self.answer(answer).map(|()| None),
            Step::Late => Ok(Some(self.late())),
            Step::Line(read) => match self.line(read).await? {
                Progress::On => Ok(None),
                Progress::Over(ending) => Ok(Some(ending)),
                Progress::TurnOver(result) => self.turn_over(result),
            },
        }
    }

    fn late(&self) -> Ending {
        match self.phase {
            Phase::Waiting(_) => Ending::Interrupted,
            Phase::Busy | Phase::Starting(_) | Phase::Between(_) => {
                let message = "Claude Code does not begin with what it was told".to_owned();
                Ending::Failed(RunError { class: ErrorClass::Crashed, message })
            }
        }
    }

    /// Passes words on at once; an interrupt has to wait until there is something to interrupt.
    fn heard(&mut self, message: Incoming) -> Result<(), RunError> {
        let is_waiting = matches!(self.phase, Phase::Waiting(_));
        if message.message_type == MessageType::Interrupt && !is_waiting && self.interrupt.is_none() {
            self.interrupt = Some(message);
            return Ok(());
        }
        self.outbox.hold(message);
        self.flush()
    }

    /// Sends what is to be sent.
    pub(super) fn flush(&mut self) -> Result<(), RunError> {
        let Some(line) = self.outbox.flush() else { return Ok(()) };
        if matches!(self.phase, Phase::Waiting(_)) {
            self.phase = Phase::Between(Instant::now() + NEXT_TURN_PATIENCE);
        }
        self.process.send(&line)
    }

    /// Waits for words, unless there are some already.
    pub(super) fn rest(&mut self) -> Result<Option<Ending>, RunError> {
        self.phase = Phase::Waiting(Instant::now() + self.config.interrupt_wait);
        self.flush()?;
        if self.outbox.is_under_way() {
            self.phase = Phase::Between(Instant::now() + NEXT_TURN_PATIENCE);
        } else if self.inbox_open {
            let message = "interrupted; waiting for a message".to_owned();
            self.ctx.events.emit(AgentEvent::Waiting { message });
        } else {
            return Ok(Some(Ending::Interrupted));
        }
        Ok(None)
    }

    /// The CLI has nothing more to do, or gives up.
    pub(super) fn turn_over(&mut self, result: TurnResult) -> Result<Option<Ending>, RunError> {
        self.phase = Phase::Between(Instant::now() + NEXT_TURN_PATIENCE);
        if result.was_aborted() {
            self.interrupted();
            return self.rest();
        }
        match result.failure(self.story.turns) {
            None => self.done(result.stop_reason),
            Some(Ending::Failed(error)) if error.class == ErrorClass::Network && self.story.has_begun() => {
                if self.story.is_answered() {
                    self.done(None)
                } else {
                    self.cut_off(error)
                }
            }
            Some(ending) => Ok(Some(ending)),
        }
    }

    /// The end, unless somebody spoke meanwhile.
    fn done(&mut self, stop_reason: Option<String>) -> Result<Option<Ending>, RunError> {
        if self.outbox.is_under_way() {
            // An interrupt stops what the CLI begins with now.
            return Ok(None);
        }
        // One that comes too late has nothing left to stop but may have words.
        if let Some(message) = self.interrupt.take() {
            self.outbox.hold(message);
        }
        while let Ok(message) = self.ctx.inbox.try_recv() {
            self.outbox.hold(message);
        }
        self.flush()?;
        if self.outbox.is_under_way() {
            return Ok(None);
        }
        let stop_reason = stop_reason.unwrap_or_else(|| "end_turn".to_owned());
        Ok(Some(Ending::Completed { stop_reason }))
    }

    /// It ended, and nobody had told it to.
    pub(super) async fn crashed(&mut self) -> Ending {
        use std::os::unix::process::ExitStatusExt as _;
        let (status, last_words) = self.process.post_mortem().await;
        self.story.calls.give_up("[the agent's program ended before it was done]");
        let how = status.map_or_else(|| "it closed its output".to_owned(), |status| status.to_string());
        let words = if last_words.is_empty() { "nothing".to_owned() } else { last_words };
        let message = format!("Claude Code ended in the middle of its work ({how}); it last said: {words}");
        let error_type = match status.and_then(|status| status.signal()) {
            Some(nix::libc::SIGKILL) => StreamErrorType::Sigkill,
            _ => StreamErrorType::CommandFailed,
        };
        self.story.stream_error(message.clone(), error_type, false);
        Ending::Failed(RunError { class: ErrorClass::Crashed, message })
    }

    /// Nothing is left running, however it ended.
    async fn let_go(&mut self, ending: &Ending) {
        self.forget_questions();
        if matches!(ending, Ending::Cancelled | Ending::MaxTurns) {
            let _ = self.process.send(&wire::interrupt("last"));
            // So that the conversation is whole when it is taken up again.
            let _ = timeout(self.config.end_grace, self.until_turn_over()).await;
        }
        self.process.finish(self.config.end_grace).await;
        self.story.calls.give_up("[interrupted]");
    }
}
