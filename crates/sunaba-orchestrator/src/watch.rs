//! The loop that gives every living sandbox its driver.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sunaba_store::SandboxFilter;
use sunaba_types::{Sandbox, SandboxId, SandboxState};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::{Parts, reconcile};

/// The longest time between two looks at the rows.
const POLL: Duration = Duration::from_secs(1);
/// The shortest: a busy log must not keep the loop busy.
const PAUSE: Duration = Duration::from_millis(20);
/// How often leftovers are looked for.
const RECONCILE_EVERY: Duration = Duration::from_secs(60);

const LIVING: [SandboxState; 4] =
    [SandboxState::Pending, SandboxState::Creating, SandboxState::Running, SandboxState::Completing];

/// Looks after the sandboxes of one provider.
#[derive(Debug)]
pub struct Orchestrator {
    parts: Arc<Parts>,
    starts: Arc<Semaphore>,
    drivers: JoinSet<SandboxId>,
    /// Which driver drives which sandbox, also when it panicked.
    driven_by: HashMap<tokio::task::Id, SandboxId>,
    /// Told when the row says that the sandbox is over.
    over: HashMap<SandboxId, CancellationToken>,
    /// Looks for leftovers beside the loop: what is slow to delete must not hold up a start or a stop.
    sweeper: JoinSet<()>,
}

impl Orchestrator {
    /// Looks after the sandboxes of `parts.provider`.
    pub fn new(parts: Parts) -> Self {
        let starts = Arc::new(Semaphore::new(parts.settings.concurrent_starts.max(1)));
        Self {
            parts: Arc::new(parts),
            starts,
            drivers: JoinSet::new(),
            driven_by: HashMap::new(),
            over: HashMap::new(),
            sweeper: JoinSet::new(),
        }
    }

    /// Works until `stop`; running sandboxes live on and are adopted by the next start.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut hints = self.parts.store.hints();
        let mut reconcile_at = tokio::time::Instant::now();
        loop {
            hints.mark_unchanged();
            self.look().await;
            if tokio::time::Instant::now() >= reconcile_at {
                self.sweep();
                reconcile_at = tokio::time::Instant::now() + RECONCILE_EVERY;
            }
            tokio::select! {
                () = stop.cancelled() => break,
                _ = tokio::time::timeout(POLL, hints.changed()) => {}
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        self.drivers.shutdown().await;
        self.sweeper.shutdown().await;
    }

    /// Starts looking for leftovers, unless the last look still goes on.
    fn sweep(&mut self) {
        while self.sweeper.try_join_next().is_some() {}
        if self.sweeper.is_empty() {
            let parts = Arc::clone(&self.parts);
            self.sweeper.spawn(async move { reconcile::remove_leftovers(&parts).await });
        }
    }

    /// Compares rows with drivers: starts the missing, tells those whose row is over.
    async fn look(&mut self) {
        self.forget_ended_drivers();
        let living = match self.living().await {
            Ok(living) => living,
            Err(error) => {
                tracing::warn!(%error, "cannot read the sandboxes; trying again");
                return;
            }
        };
        self.tell_those_that_are_over(&living).await;
        for sandbox in living {
            self.ensure_driver(sandbox);
        }
    }

    fn forget_ended_drivers(&mut self) {
        while let Some(done) = self.drivers.try_join_next_with_id() {
            let task = match done {
                Ok((task, _)) => task,
                Err(error) => {
                    tracing::error!(%error, "a sandbox's driver panicked; it gets a new one");
                    error.id()
                }
            };
            if let Some(id) = self.driven_by.remove(&task) {
                self.over.remove(&id);
            }
        }
    }

    /// Tells the drivers whose sandbox is no longer among the living, after a look at that very row: a list
    /// may be cut short, and what is told here is killed.
    async fn tell_those_that_are_over(&self, living: &[Sandbox]) {
        let ids: HashSet<&SandboxId> = living.iter().map(|sandbox| &sandbox.id).collect();
        for (id, over) in self.over.iter().filter(|(id, over)| !ids.contains(id) && !over.is_cancelled()) {
            match self.parts.store.find_sandbox(id).await {
                Ok(Some(row)) if !row.state.is_terminal() => {}
                Ok(_) => over.cancel(),
                Err(error) => tracing::warn!(sandbox = %id, %error, "cannot read the row; looking again"),
            }
        }
    }

    async fn living(&self) -> sunaba_store::Result<Vec<Sandbox>> {
        let filter = SandboxFilter {
            states: LIVING.to_vec(),
            provider: Some(self.parts.provider.name().to_owned()),
            limit: 10_000,
            ..SandboxFilter::default()
        };
        let mut living = self.parts.store.list_sandboxes(filter).await?;
        // Oldest first, so that what waited longest is started first.
        living.reverse();
        Ok(living)
    }

    fn ensure_driver(&mut self, sandbox: Sandbox) {
        if self.over.contains_key(&sandbox.id) {
            return;
        }
        let is_new = sandbox.state == SandboxState::Pending;
        if is_new && self.over.len() >= self.parts.settings.max_sandboxes {
            // It stays pending; the row is looked at again when another one ends.
            return;
        }
        let over = CancellationToken::new();
        self.over.insert(sandbox.id.clone(), over.clone());
        let driver = Driver { parts: Arc::clone(&self.parts), starts: Arc::clone(&self.starts), over };
        let id = sandbox.id.clone();
        let task = self.drivers.spawn(driver.drive(sandbox));
        self.driven_by.insert(task.id(), id);
    }
}
