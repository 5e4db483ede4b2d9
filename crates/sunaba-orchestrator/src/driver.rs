//! One sandbox from its row to its end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_sandbox::{Prepared, Provider, Status};
use sunaba_store::SandboxChange;
use sunaba_types::shim::Exit;
use sunaba_types::{Sandbox, SandboxId, SandboxState};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::bring_up::{BringUp, Gates};
use crate::patience::patiently;
use crate::record::record;
use crate::{Error, Parts, ending, finish, setup};

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
}

impl Driver {
    /// Brings the sandbox up or adopts it, waits for its end and finishes its work.
    pub(crate) async fn drive(self, sandbox: Sandbox) -> SandboxId {
        let id = sandbox.id.clone();
        if let Err(error) = Box::pin(self.live(sandbox)).await {
            tracing::warn!(sandbox = %id, %error, "the sandbox failed");
            self.fail(&id, &error.to_string()).await;
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
                return Err(Error::Missing(format!(
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
        let mut row = self.row.clone();
        let mut known = row.borrow_and_update().state;
        let mut since = self.since(&row.borrow());
        let exit = self.provider.wait(id);
        tokio::pin!(exit);
        loop {
            let (due, at) = self.next_due(&row.borrow(), since);
            tokio::select! {
                exit = &mut exit => return self.after_exit(id, &exit?, None).await,
                () = self.over.cancelled() => return self.end_at_once(id).await,
                changed = row.changed() => {
                    if changed.is_err() {
                        // The orchestrator stops; the sandbox lives on.
                        return std::future::pending().await;
                    }
                    let state = row.borrow_and_update().state;
                    if state != known {
                        (known, since) = (state, Instant::now());
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
                    }
                    Due::TimeIsOver => return self.time_is_over(id).await,
                    Due::WorkerEnd => {
                        let exit = self.end(id).await?;
                        return self.after_exit(id, &exit, None).await;
                    }
                },
            }
        }
    }

    /// Since when it is in its state. Only what ran before this driver began is told by a clock that may jump.
    fn since(&self, row: &Sandbox) -> Instant {
        let now = Instant::now();
        if row.state != SandboxState::Running {
            return now;
        }
        let ran = self.parts.clock.now().duration_since(row.state_entered_at).as_secs();
        let ran = Duration::from_secs(u64::try_from(ran).unwrap_or(0));
        now.checked_sub(ran).unwrap_or(now)
    }

    fn next_due(&self, row: &Sandbox, since: Instant) -> (Due, Instant) {
        let settings = &self.parts.settings;
        match (row.state, row.terms.timeout_seconds) {
            (SandboxState::Pending | SandboxState::Creating, _) => {
                (Due::FirstEvent, since + settings.creating_deadline)
            }
            (SandboxState::Completing, _) => (Due::WorkerEnd, since + settings.completing_deadline),
            (SandboxState::Running, Some(seconds)) => {
                let given = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
                (Due::TimeIsOver, since + given.min(FAR_AWAY))
            }
            _ => (Due::TimeIsOver, Instant::now() + FAR_AWAY),
        }
    }

    async fn time_is_over(&self, id: &SandboxId) -> Result<(), Error> {
        let seconds = self.row.borrow().terms.timeout_seconds.unwrap_or_default();
        let words =
            format!("it ran longer than the {seconds} s it was given (timeout_seconds) and was ended");
        record(&self.parts, id, "sandbox.timeout", &json!({ "timeout_seconds": seconds })).await;
        let exit = self.end(id).await?;
        self.after_exit(id, &exit, Some(&words)).await
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
            Err(_) => {
                self.provider.kill(id).await?;
                let exit = tokio::time::timeout(EXIT_WITHIN, self.provider.wait(id)).await;
                Ok(exit.map_err(|_| Error::TooSlow { what: "its end", seconds: EXIT_WITHIN.as_secs() })??)
            }
        }
    }

    /// The row is over: nothing of it may go on.
    async fn end_at_once(&self, id: &SandboxId) -> Result<(), Error> {
        self.provider.kill(id).await?;
        if let Status::Exited(exit) = self.provider.status(id).await? {
            self.record_exit(id, &exit).await;
        }
        Ok(())
    }

    async fn after_exit(&self, id: &SandboxId, exit: &Exit, why: Option<&str>) -> Result<(), Error> {
        self.record_exit(id, exit).await;
        let sandbox = self.find(id).await?;
        match sandbox.state {
            SandboxState::Completing => finish::record_result(&self.parts, &sandbox).await,
            state if state.is_terminal() => Ok(()),
            _ => Err(Error::Missing(why.map_or_else(|| ending::describe(exit), str::to_owned))),
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
