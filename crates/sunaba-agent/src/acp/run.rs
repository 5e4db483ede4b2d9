//! The loop between the agent and whoever talks to it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use sunaba_types::MessageType;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::calls::Calls;
use super::cuts::CutTurns;
use super::prompts::{Outbox, Words};
use super::start::{Open, lay, never_began, open};
use super::story::Story;
use super::wire::{self, TurnEnd};
use super::{AcpAgent, AcpConfig, command, gemini, store, usage};
use crate::child::{Process, Read};
use crate::{
    AgentEvent, Answer, Ending, ErrorClass, Incoming, RunContext, RunError, RunOutcome, StreamErrorType,
    Usage,
};

/// How long an agent may take to begin with what it was told before its last turn ended.
const NEXT_TURN_PATIENCE: Duration = Duration::from_secs(60);

/// Does one task from its prompt to its outcome.
pub(super) async fn run(config: AcpConfig, ctx: RunContext) -> RunOutcome {
    let (dir, take_up) = match lay(&config, &ctx) {
        Ok(laid) => laid,
        Err(error) => return never_began(ctx, error),
    };
    match open(&config, &ctx, &dir, take_up).await {
        Ok(open) => Run::new(config, ctx, dir, open).until_the_end().await,
        Err(error) => never_began(ctx, error),
    }
}

/// What the agent is about, and until when at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
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
    TurnOver(TurnEnd),
    Over(Ending),
}

/// Somebody has answered whether the agent may.
pub(super) struct Decision {
    pub(super) id: Value,
    pub(super) answer: Answer,
    pub(super) tool: String,
    pub(super) allow: Option<String>,
    pub(super) reject: Option<String>,
}

enum Step {
    Stop,
    Heard(Option<Incoming>),
    Decided(Decision),
    Line(Option<Read>),
    Late,
}

/// A task in the making.
pub(super) struct Run {
    pub(super) config: AcpConfig,
    pub(super) ctx: RunContext,
    pub(super) dir: PathBuf,
    /// What the agent writes down, where that tells more than the protocol.
    pub(super) record: Option<gemini::Record>,
    pub(super) process: Process,
    pub(super) session: String,
    pub(super) can_load: bool,
    pub(super) next_id: u64,
    pub(super) story: Story,
    pub(super) outbox: Outbox,
    pub(super) phase: Phase,
    pub(super) inbox_open: bool,
    pub(super) cut: CutTurns,
    /// It was told to end its turn.
    pub(super) is_stopping: bool,
    /// What a conversation that is taken up had used already.
    used_before: Usage,
    /// Permissions that somebody is being asked for, by the request's number.
    pub(super) asking: JoinSet<Decision>,
    pub(super) asked: HashMap<String, (Value, AbortHandle)>,
}

impl Run {
    fn new(config: AcpConfig, ctx: RunContext, dir: PathBuf, open: Open) -> Self {
        let preset = config.agent.preset();
        let calls = Calls::new(ctx.cwd.clone(), ctx.events.clone());
        let metadata = serde_json::json!({
            "subtype": "init", "runtime": preset.known.name, "agent": open.introduction.agent_info,
            "session_id": open.session, "model": ctx.model,
        });
        ctx.events.emit(AgentEvent::system_message(0, metadata));
        Self {
            story: Story::new(ctx.events.clone(), preset, ctx.model.clone(), calls),
            outbox: Outbox::new(preset),
            can_load: open.introduction.can_load(),
            process: open.process,
            session: open.session,
            next_id: open.next_id,
            phase: Phase::Busy,
            inbox_open: true,
            cut: CutTurns::default(),
            is_stopping: false,
            used_before: usage::kept_before(&config.agent, &dir),
            asking: JoinSet::new(),
            asked: HashMap::new(),
            record: (config.agent == AcpAgent::Gemini).then(|| gemini::Record::new(&dir)),
            config,
            ctx,
            dir,
        }
    }

    async fn until_the_end(mut self) -> RunOutcome {
        self.ctx.events.emit(AgentEvent::user_message(0, &self.ctx.prompt));
        let preamble = command::preamble(&self.config.agent, &self.ctx);
        let texts = preamble.into_iter().chain([self.ctx.prompt.clone()]).collect();
        let ending = match self.hand_over(Words::plain(texts)) {
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
        let transcript = store::find(&self.dir, self.config.agent.preset()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the conversation cannot be read");
            None
        });
        self.ctx.inbox.close();
        let mut undelivered = self.outbox.left();
        undelivered.extend(std::iter::from_fn(|| self.ctx.inbox.try_recv().ok()));
        RunOutcome {
            ending,
            turns: self.story.turns,
            usage: usage::kept(&self.config.agent, &self.dir)
                .map_or(self.story.usage, |kept| usage::since(&self.used_before, &kept)),
            session_id: self.ctx.session_id,
            transcript,
            final_output: self.story.final_output,
            undelivered,
        }
    }

    async fn converse(&mut self) -> Ending {
        loop {
            let step = self.step().await;
            match self.take(step).await {
                Ok(None) => {}
                Ok(Some(ending)) => return ending,
                Err(error) => return Ending::Failed(error),
            }
        }
    }

    async fn step(&mut self) -> Step {
        let may_hear = self.inbox_open && self.outbox.has_room();
        let deadline = match self.phase {
            Phase::Busy => None,
            Phase::Between(at) | Phase::Waiting(at) => Some(at),
        };
        tokio::select! {
            biased;
            () = self.ctx.shutdown.cancelled() => Step::Stop,
            received = self.ctx.inbox.recv(), if may_hear => Step::Heard(received),
            // One that was given up gives nothing.
            Some(Ok(decision)) = self.asking.join_next(), if !self.asking.is_empty() => Step::Decided(decision),
            line = self.process.next_line() => Step::Line(line),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => Step::Late,
        }
    }

    async fn take(&mut self, step: Step) -> Result<Option<Ending>, RunError> {
        match step {
            Step::Stop => Ok(Some(Ending::Cancelled)),
            Step::Heard(Some(message)) => self.heard(message).await,
            Step::Heard(None) => {
                self.inbox_open = false;
                // Nobody can say how to go on any more.
                Ok(matches!(self.phase, Phase::Waiting(_)).then_some(Ending::Interrupted))
            }
            Step::Decided(decision) => self.decided(decision).map(|()| None),
            Step::Late => self.late().await,
            Step::Line(read) => match self.line(read).await? {
                Progress::On => Ok(None),
                Progress::Over(ending) => Ok(Some(ending)),
                Progress::TurnOver(end) => self.turn_over(&end).await,
            },
        }
    }

    async fn late(&mut self) -> Result<Option<Ending>, RunError> {
        if matches!(self.phase, Phase::Waiting(_)) {
            return Ok(Some(Ending::Interrupted));
        }
        if self.say_again_after_cut()? {
            return Ok(None);
        }
        // It had been taken into the turn before, unseen, and there is no answer to wait for.
        for message in self.outbox.settled() {
            self.ctx.events.emit(AgentEvent::message_injected(self.story.turns, message));
        }
        self.turn_over(&TurnEnd::default()).await
    }

    /// Passes words on as soon as the agent takes them; an interrupt stops it first.
    async fn heard(&mut self, message: Incoming) -> Result<Option<Ending>, RunError> {
        if message.message_type == MessageType::Interrupt && !matches!(self.phase, Phase::Waiting(_)) {
            return self.stop_at_once(message).await;
        }
        self.outbox.hold(message);
        self.flush().map(|()| None)
    }

    /// Hands over what can be.
    pub(super) fn flush(&mut self) -> Result<(), RunError> {
        match self.outbox.next() {
            Some(words) => self.hand_over(words),
            None => Ok(()),
        }
    }

    fn hand_over(&mut self, words: Words) -> Result<(), RunError> {
        let id = self.next_id;
        self.next_id += 1;
        self.process.send(&wire::request(
            id,
            "session/prompt",
            &wire::prompt(&self.session, &words.texts),
        ))?;
        if !self.outbox.is_under_way() {
            self.story.asked_again();
        }
        let is_too_late = self.outbox.is_under_way() && self.story.awaits_answer();
        let earliest = self.story.turns + if is_too_late { 2 } else { 1 };
        self.outbox.handed_over(id, words, earliest);
        self.phase = Phase::Busy;
        Ok(())
    }

    /// Waits for words, unless there are some already.
    pub(super) fn rest(&mut self) -> Result<Option<Ending>, RunError> {
        self.phase = Phase::Waiting(Instant::now() + self.config.interrupt_wait);
        self.flush()?;
        if self.outbox.is_under_way() {
            return Ok(None);
        }
        Ok(self.wait_for_words())
    }

    /// Does nothing before somebody speaks; the end when nobody can.
    pub(super) fn wait_for_words(&mut self) -> Option<Ending> {
        self.phase = Phase::Waiting(Instant::now() + self.config.interrupt_wait);
        if !self.inbox_open {
            return Some(Ending::Interrupted);
        }
        let message = "interrupted; waiting for a message".to_owned();
        self.ctx.events.emit(AgentEvent::Waiting { message });
        None
    }

    /// The agent has nothing more to do: the end, unless somebody spoke meanwhile.
    async fn turn_over(&mut self, end: &TurnEnd) -> Result<Option<Ending>, RunError> {
        match end.stop_reason.as_str() {
            "max_turn_requests" => return Ok(Some(Ending::MaxTurns)),
            // It gave up by itself, as some do when they are not allowed something.
            "cancelled" => {
                if self.config.agent.preset().keeps_open_calls {
                    self.take_up_again().await?;
                }
                return self.rest();
            }
            _ => {}
        }
        while let Ok(message) = self.ctx.inbox.try_recv() {
            self.outbox.hold(message);
        }
        self.flush()?;
        if self.outbox.is_under_way() {
            return Ok(None);
        }
        let stop_reason = match end.stop_reason.as_str() {
            "" => "end_turn".to_owned(),
            reason => reason.to_owned(),
        };
        Ok(Some(Ending::Completed { stop_reason }))
    }

    /// Some prompts wait for a turn of their own.
    pub(super) fn between(&mut self) {
        self.phase = Phase::Between(Instant::now() + NEXT_TURN_PATIENCE);
    }

    /// It ended, and nobody had told it to.
    pub(super) async fn crashed(&mut self) -> Ending {
        use std::os::unix::process::ExitStatusExt as _;
        let (status, last_words) = self.process.post_mortem().await;
        self.story.end_answer();
        self.story.calls.give_up("[the agent's program ended before it was done]");
        let how = status.map_or_else(|| "it closed its output".to_owned(), |status| status.to_string());
        let words = if last_words.is_empty() { "nothing".to_owned() } else { last_words };
        let title = self.config.agent.preset().known.title;
        let message = format!("{title} ended in the middle of its work ({how}); it last said: {words}");
        let error_type = match status.and_then(|status| status.signal()) {
            Some(nix::libc::SIGKILL) => StreamErrorType::Sigkill,
            _ => StreamErrorType::CommandFailed,
        };
        self.story.stream_error(message.clone(), error_type, false);
        Ending::Failed(RunError { class: ErrorClass::Crashed, message })
    }

    /// Nothing is left running, however it ended.
    async fn let_go(&mut self, ending: &Ending) {
        self.asking.abort_all();
        self.is_stopping = true;
        if matches!(ending, Ending::Cancelled | Ending::MaxTurns) {
            let _ = self.process.send(&wire::cancel(&self.session));
            // So that the conversation is whole when it is taken up again.
            let _ = timeout(self.config.end_grace, self.until_turn_over()).await;
        }
        self.story.end_answer();
        if self.config.agent.preset().ends_with_its_input {
            self.process.finish(self.config.end_grace).await;
        } else {
            self.process.end(self.config.end_grace).await;
        }
        self.story.calls.give_up("[interrupted]");
    }
}
