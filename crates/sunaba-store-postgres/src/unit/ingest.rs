//! Taking one event in: who may write, whether it was here before, what it causes.

use sunaba_engine::effects_of;
use sunaba_store::{AppendOutcome, Appended, EVENT_TYPES_MAX, Rejection, Writer};
use sunaba_types::chain::Hash;
use sunaba_types::limits::{CONTINUOUS_SILENCE_SECONDS, ENDED_GRACE_SECONDS, LEGACY_SILENCE_SECONDS};
use sunaba_types::{NewEvent, SandboxId, SandboxState, Timestamp, bus_name};

use super::Unit;
use crate::fault::Fault;
use sunaba_store_sql::facts::Facts;

/// An event whose id is taken.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) seq: i64,
    pub(super) created_at: Timestamp,
    pub(super) event_type: String,
    pub(super) source: String,
    pub(super) payload_hash: Hash,
    pub(super) step: Option<String>,
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
        Self { seq, created_at, event_type, source: event.source.as_str().to_owned(), payload_hash, step }
    }

    fn is(&self, event: &NewEvent) -> bool {
        let step = event.step.as_ref().and_then(|step| serde_json::to_string(step).ok());
        self.event_type == event.event_type
            && self.source == event.source.as_str()
            && self.payload_hash == event.payload.hash()
            && self.step == step
    }
}

impl Unit {
    /// Takes one event in. An `Err` is PostgreSQL's; whatever the rules refuse is in the outcome.
    pub(crate) async fn ingest(
        &mut self,
        id: &SandboxId,
        writer: Writer,
        event: &NewEvent,
    ) -> Result<AppendOutcome, sqlx::Error> {
        match self.try_ingest(id, writer, event).await {
            Ok(outcome) => Ok(outcome),
            Err(Fault::Sql(error)) => Err(error),
            Err(Fault::Refused(error)) => Ok(Err(Rejection::Refused(error.to_string()))),
        }
    }

    async fn try_ingest(
        &mut self,
        id: &SandboxId,
        writer: Writer,
        event: &NewEvent,
    ) -> Result<AppendOutcome, Fault> {
        if self.find_sandbox(id).is_none() {
            if writer != Writer::Registrar {
                return Ok(Err(Rejection::UnknownSandbox));
            }
            self.register_external(id).await?;
        }
        if self.is_superseded(id, writer) {
            return Ok(Err(Rejection::AttemptSuperseded));
        }
        let now = self.now();
        if writer != Writer::Server {
            self.sandbox(id).heard(now);
        }
        // A retry of something stored is answered whatever happened since.
        if let Some(known) = self.state.known.get(&(id.clone(), event.event_id.clone())) {
            return Ok(match known.is(event) {
                true => Ok(Appended {
                    seq: known.seq,
                    event_id: event.event_id.clone(),
                    created_at: known.created_at,
                    duplicate: true,
                }),
                false => Err(Rejection::EventIdConflict),
            });
        }
        let ended = self.sandbox(id).row.ended_at;
        if writer != Writer::Server
            && ended.is_some_and(|at| now.duration_since(at).as_secs() >= ENDED_GRACE_SECONDS)
        {
            return Ok(Err(Rejection::SandboxEnded));
        }
        let loaded = self.sandbox(id);
        if writer != Writer::Server
            && usize::try_from(loaded.log.type_count).unwrap_or(0) >= EVENT_TYPES_MAX
            && !loaded.types.contains_key(&event.event_type)
        {
            return Ok(Err(Rejection::TooManyTypes));
        }
        let appended = self.record(id, event, bus_name(&event.event_type));
        if writer != Writer::Server && ended.is_none() {
            self.follow(id, event, appended.seq).await?;
        }
        Ok(Ok(appended))
    }

    /// Whether a later attempt has taken this writer's place. The sandbox is known.
    pub(crate) fn is_superseded(&mut self, id: &SandboxId, writer: Writer) -> bool {
        let Writer::Sandbox { attempt } = writer else { return false };
        let (own, task_id) = {
            let row = &self.sandbox(id).row;
            (row.attempt, row.task_id.clone())
        };
        let current =
            task_id.and_then(|task| self.state.tasks.get(&task)).map_or(own, |task| task.row.attempt);
        attempt != own || attempt != current
    }

    /// What a recorded event of a living sandbox causes.
    async fn follow(&mut self, id: &SandboxId, event: &NewEvent, seq: i64) -> Result<(), Fault> {
        match event.event_type.as_str() {
            "agent.started" => {
                let silence = match Facts::of(&event.payload).heartbeats_continuously() {
                    true => CONTINUOUS_SILENCE_SECONDS,
                    false => LEGACY_SILENCE_SECONDS,
                };
                self.set_silence(id, silence);
                self.offer_again(id).await?;
            }
            "agent.message_injected" => {
                let facts = Facts::of(&event.payload);
                self.consume(id, facts.message_id(), facts.content(), seq).await?;
            }
            _ => {}
        }
        let state = self.sandbox(id).row.state;
        let task = self.task_of(id).map(|task| task.status);
        let effects = effects_of(&event.event_type, &event.payload, state, task);
        for to in effects.sandbox {
            let reason = if to == SandboxState::Failed { effects.failure.clone() } else { None };
            self.enter_sandbox_state(id, to, reason);
        }
        if let Some(to) = effects.task {
            self.enter_task_state(id, to, effects.failure);
        }
        Ok(())
    }

    fn set_silence(&mut self, id: &SandboxId, seconds: i64) {
        let now = self.now();
        let loaded = self.sandbox(id);
        loaded.log.silence_seconds = seconds;
        loaded.log_changed = true;
        // The window may become shorter, so the moment is set anew instead of moved on.
        loaded.row.alive_until = None;
        loaded.heard(now);
    }
}
