//! One sandbox from its row to its end.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_sandbox::{Prepared, Provider, Status};
use sunaba_store::SandboxChange;
use sunaba_types::shim::Exit;
use sunaba_types::{Sandbox, SandboxId, SandboxState, Timestamp};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::bring_up::{BringUp, Gates};
use crate::early::{Early, beside};
use crate::patience::patiently;
use crate::record::record;
use crate::silence::{Eyes, Judge};
use crate::{Error, Parts, ending, finish, going_on, setup};

/// Nothing is due for so long.
const FAR_AWAY: Duration = Duration::from_secs(365 * 86_400);
/// How long an exit may take to be known after a kill.
const EXIT_WITHIN: Duration = Duration::from_secs(15);

/// Drives one sandbox.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) parts: Arc<Parts>,
    pub(crate) gates: Arc<Gates>,
    pub(crate) provider: Arc<dyn Provider>,
    /// Cancelled when the row says that the sandbox is over.
    pub(crate) over: CancellationToken,
    /// The row as it was last seen.
    pub(crate) row: watch::Receiver<Sandbox>,
    /// Since when it is seen without a gap.
    pub(crate) eyes: Eyes,
}

/// What is due next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// Its first event.
    FirstEvent,
    /// The end of the time it may run.
    TimeIsOver,
    /// The end of a worker whose agent is done.
    WorkerEnd,
    /// To give its place up while its task waits.
    Suspension,
}

/// How the watching of a sandbox ended.
#[derive(Debug)]
enum Ended {
    /// It is over, for this reason if it was ended for one.
    Exit(Exit, Option<String>),
    /// Its row is.
    Over,
}

/// What of a row begins a new wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    state: SandboxState,
    entered_at: Timestamp,
}

impl Seen {
    fn of(row: &Sandbox) -> Self {
        Self { state: row.state, entered_at: row.state_entered_at }
    }
}

/// Now, less what its agent worked in this sandbox before: what it waited for follow-ups does not count.
fn worked_since(row: &Sandbox) -> Instant {
    let now = Instant::now();
    if row.state != SandboxState::Running {
        return now;
    }
    let worked = Duration::from_millis(u64::try_from(row.terms.worked_ms).unwrap_or(0));
    now.checked_sub(worked).unwrap_or(now)
}

impl Driver {
    /// Brings the sandbox up or adopts it, waits for its end and finishes its work.
    pub(crate) async fn drive(self, sandbox: Sandbox) -> SandboxId {
        let id = sandbox.id.clone();
        match Box::pin(self.live(sandbox)).await {
            Ok(()) => {}
            Err(Error::Died(words)) => going_on::replace(&self.parts, &id, &words).await,
            Err(error) => {
                tracing::warn!(sandbox = %id, %error, "the sandbox failed");
                self.fail(&id, &error.to_string()).await;
            }
        }
        self.clean_up(&id).await;
        id
    }

    async fn live(&self, sandbox: Sandbox) -> Result<(), Error> {
        let status = self.provider.status(&sandbox.id).await?;
        let runs_or_ran = matches!(status, Status::Running | Status::Exited(_));
        match (sandbox.state, runs_or_ran) {
            (SandboxState::Pending | SandboxState::Creating, false) => self.start(&sandbox).await?,
            (_, true) => self.adopt(&sandbox).await?,
            (_, false) => {
                return Err(Error::Died(format!(
                    "its sandbox is gone at the provider {} without a record of its end",
                    sandbox.provider
                )));
            }
        }
        if self.over.is_cancelled() {
            return Ok(());
        }
        self.watch(&sandbox.id).await
    }

    async fn start(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let bring_up = BringUp { parts: &self.parts, gates: &self.gates, provider: &self.provider, sandbox };
        tokio::select! {
            brought_up = Box::pin(bring_up.run()) => brought_up,
            () = self.over.cancelled() => Ok(()),
        }
    }

    async fn adopt(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let found = self.provider.find(&sandbox.id).await?;
        match found.ok_or_else(|| Error::Missing("its places are gone".to_owned()))? {
            Prepared::Here(places) => {
                self.parts.doors.open(&sandbox.id, &places.door_dir).await.map_err(Error::Door)?;
            }
            // Its bridge opens the tunnel again by itself.
            Prepared::Elsewhere => {}
        }
        tracing::info!(sandbox = %sandbox.id, "adopted a sandbox that outlived its server");
        Ok(())
    }

    /// Waits for its end, or brings it about when its time is over.
    async fn watch(&self, id: &SandboxId) -> Result<(), Error> {
        let mut early = Early::new(|| self.record_early(id).boxed());
        let ended = self.watch_beside(id, &mut early).await?;
        match ended {
            Ended::Exit(exit, why) => {
                if let Err(error) = early.settle().await {
                    // Recorded or failed with what is known now.
                    tracing::warn!(sandbox = %id, %error, "its result was not recorded while it waited");
                }
                self.after_exit(id, &exit, why.as_deref()).await
            }
            Ended::Over => {
                self.end_at_once(id).await?;
                // A recording that was under way finds that it came too late, or was in time.
                if let Err(error) = early.settle().await {
                    tracing::debug!(sandbox = %id, %error, "nothing more is recorded of what is over");
                }
                Ok(())
            }
        }
    }

    async fn watch_beside<'a, Make>(
        &'a self,
        id: &SandboxId,
        early: &mut Early<'a, Make>,
    ) -> Result<Ended, Error>
    where
        Make: FnMut() -> BoxFuture<'a, Result<(), Error>>,
    {
        let mut row = self.row.clone();
        let mut known = Seen::of(&row.borrow_and_update());
        let mut since = self.since(&row.borrow());
        let exit = self.provider.wait(id);
        tokio::pin!(exit);
        self.note_done(known.state, early);
        let mut judge = Judge::new(self, id).await;
        let (mut due, mut at) = self.next_due(&row.borrow(), since);
        loop {
            tokio::select! {
                exit = &mut exit => return Ok(Ended::Exit(exit?, None)),
                () = self.over.cancelled() => return Ok(Ended::Over),
                trouble = early.trouble() => return Err(trouble),
                changed = row.changed() => {
                    if changed.is_err() {
                        // The orchestrator stops; the sandbox lives on.
                        return std::future::pending().await;
                    }
                    let seen = Seen::of(&row.borrow_and_update());
                    if seen != known {
                        since = worked_since(&row.borrow());
                        self.note_done(seen.state, early);
                        known = seen;
                    }
                    (due, at) = self.next_due(&row.borrow(), since);
                }
                step = judge.step() => {
                    if let Some(exit) = beside(early, self.climb(id, step)).await? {
                        return Ok(Ended::Exit(exit, None));
                    }
                }
                () = sleep_until(at) => match due {
                    Due::FirstEvent => {
                        // The row that was seen may be a moment old.
                        if patiently(|| self.parts.store.sandbox_state(id)).await? == SandboxState::Creating {
                            let seconds = self.parts.settings.creating_deadline.as_secs();
                            return Err(Error::TooSlow { what: "the worker's first event", seconds });
                        }
                        since = Instant::now();
                        (due, at) = self.next_due(&row.borrow(), since);
                    }
                    Due::TimeIsOver => return beside(early, self.time_is_over(id)).await,
                    Due::WorkerEnd | Due::Suspension => {
                        return Ok(Ended::Exit(beside(early, self.end(id)).await?, None));
                    }
                },
            }
        }
    }

    /// What an agent that is done has made is recorded while its sandbox waits for a follow-up.
    fn note_done<'a, Make>(&self, state: SandboxState, early: &mut Early<'a, Make>)
    where
        Make: FnMut() -> BoxFuture<'a, Result<(), Error>>,
    {
        if state == SandboxState::Completing && !self.follow_up().is_zero() {
            early.want();
        }
    }

    async fn record_early(&self, id: &SandboxId) -> Result<(), Error> {
        let sandbox = self.find(id).await?;
        if sandbox.state != SandboxState::Completing {
            // It goes on, or is over.
            return Ok(());
        }
        let Err(error) = finish::record_early(&self.parts, &sandbox).await else { return Ok(()) };
        let now = self.find(id).await?;
        if now.state == sandbox.state && now.state_entered_at == sandbox.state_entered_at {
            return Err(error);
        }
        // It works again or is over; what it makes now is recorded then, and its end is told by somebody else.
        tracing::warn!(sandbox = %id, %error, "what it had made before is not recorded");
        Ok(())
    }

    /// Since when it is in its state; of one that works, as if it had done so without a pause. Only what ran before this
    /// driver began is told by a clock that may jump.
    fn since(&self, row: &Sandbox) -> Instant {
        let worked = worked_since(row);
        if row.state != SandboxState::Running {
            return worked;
        }
        let ran = self.parts.clock.now().duration_since(row.state_entered_at).as_secs();
        let ran = Duration::from_secs(u64::try_from(ran).unwrap_or(0));
        worked.checked_sub(ran).unwrap_or(worked)
    }

    fn next_due(&self, row: &Sandbox, since: Instant) -> (Due, Instant) {
        let settings = &self.parts.settings;
        if row.terms.suspended.is_some() && row.state == SandboxState::Running {
            return (Due::Suspension, Instant::now());
        }
        if row.terms.crashed.is_some() && row.state == SandboxState::Running {
            return (Due::WorkerEnd, Instant::now() + settings.completing_deadline);
        }
        match (row.state, row.terms.timeout_seconds) {
            (SandboxState::Pending | SandboxState::Creating, _) => {
                (Due::FirstEvent, since + settings.creating_deadline)
            }
            (SandboxState::Completing, _) => {
                (Due::WorkerEnd, since + settings.completing_deadline + settings.follow_up_of(row))
            }
            (SandboxState::Running, Some(seconds)) => {
                let given = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
                (Due::TimeIsOver, since + given.min(FAR_AWAY))
            }
            _ => (Due::TimeIsOver, Instant::now() + FAR_AWAY),
        }
    }

    fn follow_up(&self) -> Duration {
        self.parts.settings.follow_up_of(&self.row.borrow())
    }

    async fn time_is_over(&self, id: &SandboxId) -> Result<Ended, Error> {
        let seconds = self.row.borrow().terms.timeout_seconds.unwrap_or_default();
        let words =
            format!("it worked longer than the {seconds} s it was given (timeout_seconds) and was ended");
        record(&self.parts, id, "sandbox.timeout", &json!({ "timeout_seconds": seconds })).await;
        Ok(Ended::Exit(self.end(id).await?, Some(words)))
    }

    /// Asks it to end, waits a while, ends it.
    async fn end(&self, id: &SandboxId) -> Result<Exit, Error> {
        self.provider.terminate(id).await?;
        let grace = self.parts.settings.ending_grace;
        let ended = tokio::select! {
            ended = tokio::time::timeout(grace, self.provider.wait(id)) => ended,
            () = self.over.cancelled() => tokio::time::timeout(Duration::ZERO, std::future::pending()).await,
        };
        match ended {
            Ok(exit) => Ok(exit?),
            Err(_) => self.kill(id).await,
        }
    }

    /// Ends it without asking, and gives how it ended then.
    pub(crate) async fn kill(&self, id: &SandboxId) -> Result<Exit, Error> {
        self.provider.kill(id).await?;
        let exit = tokio::time::timeout(EXIT_WITHIN, self.provider.wait(id)).await;
        Ok(exit.map_err(|_| Error::TooSlow { what: "its end", seconds: EXIT_WITHIN.as_secs() })??)
    }

    /// The row is over: nothing of it may go on.
    async fn end_at_once(&self, id: &SandboxId) -> Result<(), Error> {
        self.provider.kill(id).await?;
        if let Status::Exited(exit) = self.provider.status(id).await? {
            self.record_exit(id, &exit).await;
        }
        Ok(())
    }

    pub(crate) async fn after_exit(
        &self,
        id: &SandboxId,
        exit: &Exit,
        why: Option<&str>,
    ) -> Result<(), Error> {
        self.record_exit(id, exit).await;
        let sandbox = self.find(id).await?;
        match sandbox.state {
            SandboxState::Completing => finish::record_result(&self.parts, &sandbox).await,
            state if state.is_terminal() => Ok(()),
            _ if sandbox.terms.suspended.is_some() => going_on::suspended(&self.parts, &sandbox).await,
            _ => Err(match (why, &sandbox.terms.crashed) {
                (Some(why), _) => Error::Missing(why.to_owned()),
                (None, Some(how)) => Error::Died(how.clone()),
                (None, None) if ending::died(exit) => Error::Died(ending::describe(exit)),
                (None, None) => Error::Missing(ending::describe(exit)),
            }),
        }
    }

    async fn record_exit(&self, id: &SandboxId, exit: &Exit) {
        let change = SandboxChange { exit: Some(exit.clone()), ..SandboxChange::default() };
        if let Err(error) = patiently(|| self.parts.store.change_sandbox(id, change.clone())).await {
            tracing::warn!(sandbox = %id, %error, "cannot record how the sandbox ended");
        }
    }

    async fn find(&self, id: &SandboxId) -> Result<Sandbox, Error> {
        let row = patiently(|| self.parts.store.find_sandbox(id)).await?;
        row.ok_or_else(|| Error::Missing("its row is gone".to_owned()))
    }

    async fn fail(&self, id: &SandboxId, reason: &str) {
        fail(&self.parts, id, reason).await;
    }

    /// Removes everything that was made for it: what is at the provider, its door, its tokens.
    async fn clean_up(&self, id: &SandboxId) {
        let setup = setup::setup_id(id).ok();
        for id in std::iter::once(id).chain(&setup) {
            if let Err(error) = self.provider.delete(id).await {
                tracing::warn!(sandbox = %id, %error, "cannot delete the sandbox; trying again within a minute");
            }
        }
        self.parts.doors.close(id).await;
        // Asked of the store, not remembered: the server that made them may have been another.
        if let Err(error) = patiently(|| self.parts.store.revoke_tokens_of(id)).await {
            tracing::warn!(sandbox = %id, %error, "cannot revoke the sandbox's tokens");
        }
    }
}

/// Fails a sandbox and its task, unless it is over by another cause, which is on record then. A task that a later
/// attempt has, or that is over itself, is left alone; the sandbox ends all the same.
pub(crate) async fn fail(parts: &Parts, id: &SandboxId, reason: &str) {
    if going_on::was_to_be_suspended(parts, id).await {
        return;
    }
    for task_trigger in [Some(TaskTrigger::Fail), None] {
        let change = SandboxChange {
            trigger: Some(SandboxTrigger::Fail),
            task_trigger,
            reason: Some(reason.to_owned()),
            ..SandboxChange::default()
        };
        match patiently(|| parts.store.change_sandbox(id, change.clone())).await {
            Ok(_) => return,
            Err(sunaba_store::Error::Conflict { .. }) => {}
            Err(error) => {
                tracing::error!(sandbox = %id, %error, "cannot record the failure");
                return;
            }
        }
    }
}
