//! Taking one event in: who may write, whether it was here before, what it causes.

use std::borrow::Cow;

use sunaba_engine::{effects_of, effects_of_watched, silence};
use sunaba_store::{AppendOutcome, Appended, EVENT_TYPES_MAX, Rejection, Writer};
use sunaba_types::chain::Hash;
use sunaba_types::limits::ENDED_GRACE_SECONDS;
use sunaba_types::{NewEvent, SandboxId, SandboxState, Timestamp, bus_name};

use super::{Draft, EXTERNAL};
use crate::facts::Facts;
use crate::fault::Unreadable;
use crate::rows::{hash, readable, time};

/// An event whose id is taken.
#[derive(Debug, Clone)]
pub struct Known {
    seq: i64,
    created_at: Timestamp,
    event_type: String,
    source: Cow<'static, str>,
    payload_hash: Hash,
    step: Option<String>,
}

impl Known {
    pub(super) fn new(
        seq: i64,
        created_at: Timestamp,
        event: &NewEvent,
        payload_hash: Hash,
        step: Option<String>,
    ) -> Self {
        let event_type = event.event_type.clone();
        Self { seq, created_at, event_type, source: event.source.as_str().into(), payload_hash, step }
    }

    fn answer(&self, event: &NewEvent) -> AppendOutcome {
        if !self.is(event) {
            return Err(Rejection::EventIdConflict);
        }
        let event_id = event.event_id.clone();
        Ok(Appended { seq: self.seq, event_id, created_at: self.created_at, duplicate: true })
    }

    fn is(&self, event: &NewEvent) -> bool {
        let step = event.step.as_ref().and_then(|step| serde_json::to_string(step).ok());
        self.event_type == event.event_type
            && self.source == event.source.as_str()
            && self.payload_hash == event.payload.hash()
            && self.step == step
    }
}

/// A row of `events`, as far as it says whether an event is the same.
#[derive(Debug)]
pub struct KnownRow {
    pub sandbox_id: String,
    pub event_id: String,
    pub seq: i64,
    pub created_at: i64,
    pub event_type: String,
    pub source: String,
    pub payload_hash: Vec<u8>,
    pub step: Option<String>,
}

/// What became of an event.
#[derive(Debug)]
pub enum Taken {
    /// It was refused, was here before, or causes nothing.
    Done(AppendOutcome),
    /// It is recorded. The store does what concerns messages and then lets the rest follow
    /// ([`Draft::follow`]).
    Recorded(Appended, OnMessages),
}

/// What an event says about messages.
#[derive(Debug)]
pub enum OnMessages {
    /// Nothing.
    Nothing,
    /// A new worker starts: everything not consumed is offered again.
    OfferAgain,
    /// One is in the conversation: the one with this id or, without one, one that says the same.
    Consumed { id: Option<String>, content: Option<String> },
}

impl Draft {
    /// Remembers an event that is stored.
    pub fn recall(&mut self, row: KnownRow) -> Result<(), Unreadable> {
        const TABLE: &str = "events";
        let key = row.event_id;
        let known = Known {
            seq: row.seq,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            event_type: row.event_type,
            source: row.source.into(),
            payload_hash: hash(&row.payload_hash, TABLE, "payload_hash", &key)?,
            step: row.step,
        };
        let id = readable(SandboxId::parse(row.sandbox_id).ok(), TABLE, "sandbox_id", &key)?;
        self.know(&id, key, known);
        Ok(())
    }

    /// Remembers an event by its id.
    pub(super) fn know(&mut self, id: &SandboxId, event_id: String, event: Known) {
        match self.known.get_mut(id) {
            Some(events) => events.insert(event_id, event),
            None => self.known.entry(id.clone()).or_default().insert(event_id, event),
        };
    }

    /// Takes one event of a known sandbox in.
    pub fn take_in(&mut self, id: &SandboxId, writer: Writer, event: &NewEvent) -> Taken {
        if self.is_superseded(id, writer) {
            return Taken::Done(Err(Rejection::AttemptSuperseded));
        }
        let now = self.now;
        if writer != Writer::Server {
            self.sandbox(id).heard(now);
        }
        // A retry of something stored is answered whatever happened since.
        if let Some(known) = self.known.get(id).and_then(|events| events.get(&event.event_id)) {
            return Taken::Done(known.answer(event));
        }
        let ended = self.sandbox(id).row.ended_at;
        if writer != Writer::Server {
            if ended.is_some_and(|at| now.duration_since(at).as_secs() >= ENDED_GRACE_SECONDS) {
                return Taken::Done(Err(Rejection::SandboxEnded));
            }
            if self.sandbox(id).has_no_room_for(&event.event_type) {
                return Taken::Done(Err(Rejection::TooManyTypes));
            }
        }
        let appended = self.record(id, event, bus_name(&event.event_type));
        if writer == Writer::Server || ended.is_some() {
            return Taken::Done(Ok(appended));
        }
        Taken::Recorded(appended, self.on_messages(id, event))
    }

    /// Whether a later attempt has taken this writer's place. The sandbox is known.
    pub fn is_superseded(&mut self, id: &SandboxId, writer: Writer) -> bool {
        let Writer::Sandbox { attempt } = writer else { return false };
        let (own, task_id) = {
            let row = &self.sandbox(id).row;
            (row.attempt, row.task_id.clone())
        };
        let current = task_id.and_then(|task| self.tasks.get(&task)).map_or(own, |task| task.row.attempt);
        attempt != own || attempt != current
    }

    fn on_messages(&mut self, id: &SandboxId, event: &NewEvent) -> OnMessages {
        match event.event_type.as_str() {
            "agent.started" => {
                let facts = Facts::of(&event.payload);
                let silence = match facts.heartbeats_continuously() {
                    true => silence::window_of(facts.heartbeat_seconds()),
                    false => self.legacy_silence_seconds,
                };
                self.set_silence(id, silence);
                OnMessages::OfferAgain
            }
            "agent.message_injected" => {
                let facts = Facts::of(&event.payload);
                OnMessages::Consumed { id: facts.message_id(), content: facts.content() }
            }
            _ => OnMessages::Nothing,
        }
    }

    /// The state changes that a recorded event of a living sandbox causes.
    pub fn follow(&mut self, id: &SandboxId, event: &NewEvent) {
        let row = &self.sandbox(id).row;
        let (state, is_watched, is_crashed) =
            (row.state, row.provider != EXTERNAL, row.terms.crashed.is_some());
        let task = self.task_of(id).map(|task| task.status);
        let effects = match is_watched {
            true => effects_of_watched(&event.event_type, &event.payload, state, task, is_crashed),
            false => effects_of(&event.event_type, &event.payload, state, task),
        };
        if let Some(how) = effects.crash {
            let loaded = self.sandbox(id);
            loaded.row.terms.crashed.get_or_insert(how);
            loaded.row_changed = true;
        }
        for to in effects.sandbox {
            let reason = match to {
                SandboxState::Failed => effects.failure.clone(),
                SandboxState::Completed => self.sandbox(id).row.terms.suspended.clone(),
                _ => None,
            };
            self.enter_sandbox_state(id, to, reason);
            if (state, to) == (SandboxState::Completing, SandboxState::Running) {
                // Whatever its task was to wait for: somebody spoke, and it goes on here.
                let terms = &mut self.sandbox(id).row.terms;
                (terms.suspended, terms.quota_wait_ms) = (None, 0);
                (terms.deaths, terms.losses) = (0, 0);
            }
        }
        if let Some(to) = effects.task {
            self.enter_task_state(id, to, effects.failure);
        }
    }

    fn set_silence(&mut self, id: &SandboxId, seconds: i64) {
        let now = self.now;
        let loaded = self.sandbox(id);
        loaded.log.silence_seconds = seconds;
        loaded.row.silence_seconds = seconds;
        loaded.log_changed = true;
        // The window may become shorter, so the moment is set anew instead of moved on.
        loaded.row.alive_until = None;
        loaded.heard(now);
    }
}

impl super::LoadedSandbox {
    fn has_no_room_for(&self, event_type: &str) -> bool {
        usize::try_from(self.log.type_count).unwrap_or(0) >= EVENT_TYPES_MAX
            && self.types.get(event_type).is_none_or(|count| *count == 0)
    }
}
