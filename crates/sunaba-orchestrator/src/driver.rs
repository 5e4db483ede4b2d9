//! One sandbox from its row to its end.

use std::sync::Arc;
use std::time::Duration;

use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_sandbox::Status;
use sunaba_store::SandboxChange;
use sunaba_types::shim::Exit;
use sunaba_types::{Sandbox, SandboxId, SandboxState};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::patience::patiently;
use crate::{Error, Parts, bring_up, finish};

/// Drives one sandbox.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) parts: Arc<Parts>,
    pub(crate) starts: Arc<Semaphore>,
    /// Cancelled when the row says that the sandbox is over.
    pub(crate) over: CancellationToken,
}

impl Driver {
    /// Brings the sandbox up or adopts it, waits for its end and finishes its work.
    pub(crate) async fn drive(self, sandbox: Sandbox) -> SandboxId {
        let id = sandbox.id.clone();
        if let Err(error) = self.live(sandbox).await {
            tracing::warn!(sandbox = %id, %error, "the sandbox failed");
            self.fail(&id, &error.to_string()).await;
        }
        self.clean_up(&id).await;
        id
    }

    async fn live(&self, sandbox: Sandbox) -> Result<(), Error> {
        let status = self.parts.provider.status(&sandbox.id).await?;
        let runs_or_ran = matches!(status, Status::Running | Status::Exited(_));
        match (sandbox.state, runs_or_ran) {
            (SandboxState::Pending | SandboxState::Creating, false) => self.start(&sandbox).await?,
            (_, true) => self.adopt(&sandbox).await?,
            (_, false) => {
                return Err(Error::Missing("its process vanished without a trace".to_owned()));
            }
        }
        if self.over.is_cancelled() {
            return Ok(());
        }
        self.watch(&sandbox.id).await
    }

    /// Brings it up, within the limit on concurrent starts.
    async fn start(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let _permit = tokio::select! {
            permit = self.starts.acquire() => permit,
            () = self.over.cancelled() => return Ok(()),
        };
        bring_up::bring_up(&self.parts, sandbox).await
    }

    async fn adopt(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let found = self.parts.provider.find(&sandbox.id).await?.and_then(sunaba_sandbox::Prepared::here);
        let prepared = found.ok_or_else(|| Error::Missing("its places are gone".to_owned()))?;
        self.parts.doors.open(&sandbox.id, &prepared.door_dir).await.map_err(Error::Door)?;
        tracing::info!(sandbox = %sandbox.id, "adopted a sandbox that outlived its server");
        Ok(())
    }

    async fn watch(&self, id: &SandboxId) -> Result<(), Error> {
        let silent = tokio::time::sleep(self.parts.settings.creating_deadline);
        tokio::pin!(silent);
        loop {
            tokio::select! {
                exit = self.parts.provider.wait(id) => return self.after_exit(id, &exit?).await,
                () = self.over.cancelled() => return Ok(self.parts.provider.kill(id).await?),
                () = &mut silent => {
                    if patiently(|| self.parts.store.sandbox_state(id)).await? == SandboxState::Creating {
                        let seconds = self.parts.settings.creating_deadline.as_secs();
                        return Err(Error::TooSlow { what: "the worker's first event", seconds });
                    }
                    silent.as_mut().reset(tokio::time::Instant::now() + Duration::from_secs(86_400));
                }
            }
        }
    }

    async fn after_exit(&self, id: &SandboxId, exit: &Exit) -> Result<(), Error> {
        let sandbox = self.find(id).await?;
        match sandbox.state {
            SandboxState::Completing => finish::record_result(&self.parts, &sandbox).await,
            state if state.is_terminal() => Ok(()),
            _ => Err(Error::Missing(describe_exit(exit))),
        }
    }

    async fn find(&self, id: &SandboxId) -> Result<Sandbox, Error> {
        let row = patiently(|| self.parts.store.find_sandbox(id)).await?;
        row.ok_or_else(|| Error::Missing("its row is gone".to_owned()))
    }

    async fn fail(&self, id: &SandboxId, reason: &str) {
        let change = SandboxChange {
            trigger: Some(SandboxTrigger::Fail),
            task_trigger: Some(TaskTrigger::Fail),
            reason: Some(reason.to_owned()),
            ..SandboxChange::default()
        };
        match patiently(|| self.parts.store.change_sandbox(id, change.clone())).await {
            // A conflict: it is over by another cause, and that one is on record.
            Ok(_) | Err(sunaba_store::Error::Conflict { .. }) => {}
            Err(error) => tracing::error!(sandbox = %id, %error, "cannot record the failure"),
        }
    }

    async fn clean_up(&self, id: &SandboxId) {
        if let Err(error) = self.parts.provider.delete(id).await {
            tracing::warn!(sandbox = %id, %error, "cannot delete the sandbox; trying again within a minute");
        }
        self.parts.doors.close(id).await;
    }
}

fn describe_exit(exit: &Exit) -> String {
    let how = match (&exit.error, exit.code, exit.signal) {
        (Some(error), _, _) => format!("it could not be started: {error}"),
        (None, _, Some(signal)) if exit.oom_kills > 0 => {
            format!("it ran out of memory and was killed by signal {signal}")
        }
        (None, _, Some(signal)) => format!("it was killed by signal {signal}"),
        (None, Some(code), None) => format!("it ended with exit code {code}"),
        (None, None, None) => "it ended in an unknown way".to_owned(),
    };
    format!("the sandbox was over before its agent was done: {how}; see its raw log")
}
