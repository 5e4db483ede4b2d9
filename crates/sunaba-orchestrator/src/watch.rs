//! The loop that gives every living sandbox of this node its driver, and takes up what waits for one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use sunaba_store::{HeldBy, SandboxFilter};
use sunaba_types::{Node, Sandbox, SandboxId, SandboxState};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::bring_up::Gates;
use crate::driver::{self, Driver};
use crate::lost::Watchman;
use crate::placement::{self, COURTESY};
use crate::reconcile::{SEEN_FOR, SeenWaiting};
use crate::record::record_once;
use crate::silence::Eyes;
use crate::{Parts, capacity, going_on, reconcile};

/// The longest time between two looks at the rows.
const POLL: Duration = Duration::from_secs(1);
/// The shortest: a busy log must not keep the loop busy.
const PAUSE: Duration = Duration::from_millis(20);
/// How often rows and providers are compared.
const RECONCILE_EVERY: Duration = Duration::from_secs(60);
/// How often the other nodes are looked at.
const NODES_EVERY: Duration = Duration::from_secs(10);
/// Where there are other nodes, one of them may have room: how long a sandbox waits before that is said.
const WAITING_IS_SAID_AFTER: Duration = Duration::from_secs(2);
/// Most rows that wait and are looked at together: the oldest.
const FREE_MAX: u32 = 200;
/// Most rows in one look.
pub(crate) const LOOK_MAX: u32 = 10_000;

pub(crate) const LIVING: [SandboxState; 4] =
    [SandboxState::Pending, SandboxState::Creating, SandboxState::Running, SandboxState::Completing];

/// What the loop has of a driver.
#[derive(Debug)]
struct Seat {
    /// Told when the row says that the sandbox is over.
    over: CancellationToken,
    /// Where the driver sees its row.
    row: watch::Sender<Sandbox>,
}

/// Looks after the sandboxes of the providers it is given.
#[derive(Debug)]
pub struct Orchestrator {
    parts: Arc<Parts>,
    gates: Arc<Gates>,
    drivers: JoinSet<SandboxId>,
    /// Which driver drives which sandbox, also when it panicked.
    driven_by: HashMap<tokio::task::Id, SandboxId>,
    seats: HashMap<SandboxId, Seat>,
    /// Since when the rows are seen without a gap.
    eyes: Eyes,
    /// Sandboxes that wait for room, and what was said about it.
    waiting: HashMap<SandboxId, String>,
    /// Sandboxes that nobody holds, and since when this node knows of them.
    free: HashMap<SandboxId, Instant>,
    /// Looks whether the other nodes live, beside the loop.
    watchman: JoinSet<()>,
    /// Providers whose rows are left alone, once it was said.
    left_alone: Arc<Mutex<HashSet<String>>>,
    /// What nobody has begun yet, as the comparisons saw it.
    seen_waiting: Arc<SeenWaiting>,
    /// Compares beside the loop: what is slow to delete must not hold up a start or a stop.
    sweeper: JoinSet<()>,
}

impl Orchestrator {
    /// Looks after the sandboxes of `parts.providers`.
    pub fn new(parts: Parts) -> Self {
        let gates = Gates {
            starts: Semaphore::new(parts.settings.concurrent_starts.max(1)),
            setups: Semaphore::new(parts.settings.concurrent_setups.max(1)),
        };
        Self {
            parts: Arc::new(parts),
            gates: Arc::new(gates),
            drivers: JoinSet::new(),
            driven_by: HashMap::new(),
            seats: HashMap::new(),
            eyes: Eyes::default(),
            waiting: HashMap::new(),
            free: HashMap::new(),
            watchman: JoinSet::new(),
            left_alone: Arc::default(),
            seen_waiting: Arc::default(),
            sweeper: JoinSet::new(),
        }
    }

    /// Works until `stop`; running sandboxes live on and are adopted by the next start.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut hints = self.parts.store.hints();
        let mut reconcile_at = Instant::now();
        let mut wake_at = Instant::now();
        self.watchman.spawn(watch_nodes(Arc::clone(&self.parts)));
        loop {
            hints.mark_unchanged();
            let began = std::time::Instant::now();
            let went_well = self.look().await;
            self.parts.nodes.loops().round("sandboxes", began, went_well);
            if self.parts.settings.takes_up && Instant::now() >= wake_at {
                let began = std::time::Instant::now();
                let went_well = going_on::wake(&self.parts).await;
                self.parts.nodes.loops().round("wake", began, went_well);
                wake_at = Instant::now() + POLL;
            }
            if Instant::now() >= reconcile_at {
                self.sweep();
                reconcile_at = Instant::now() + RECONCILE_EVERY;
            }
            // What is left to a better node for a moment is looked at again after that moment.
            let left_to_others = self.free.values().any(|since| since.elapsed() < COURTESY);
            let pause = if left_to_others { COURTESY / 2 } else { POLL };
            tokio::select! {
                () = stop.cancelled() => break,
                _ = tokio::time::timeout(pause, hints.changed()) => {}
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        self.drivers.shutdown().await;
        self.sweeper.shutdown().await;
        self.watchman.shutdown().await;
    }

    /// Starts comparing, unless the last comparison still goes on.
    fn sweep(&mut self) {
        while self.sweeper.try_join_next().is_some() {}
        if self.sweeper.is_empty() {
            let (parts, left_alone) = (Arc::clone(&self.parts), Arc::clone(&self.left_alone));
            let seen = Arc::clone(&self.seen_waiting);
            self.sweeper.spawn(async move {
                let began = std::time::Instant::now();
                let went_well = reconcile::reconcile(&parts, &seen).await;
                parts.nodes.loops().round("reconcile", began, went_well);
                for name in reconcile::unknown_providers(&parts).await {
                    let mut said = left_alone.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if said.insert(name.clone()) {
                        tracing::warn!(
                            provider = name,
                            "there are sandboxes of a provider that this server does not have; they are left alone"
                        );
                    }
                }
            });
        }
    }

    /// Compares rows with drivers: starts the missing, tells those whose row is over. Whether it could look.
    async fn look(&mut self) -> bool {
        self.forget_ended_drivers();
        let living = match self.living().await {
            Ok(living) => living,
            Err(error) => {
                tracing::warn!(%error, "cannot read the sandboxes; trying again");
                self.eyes.lost();
                return false;
            }
        };
        self.tell_those_that_are_over(&living).await;
        let ids: HashSet<&SandboxId> = living.iter().map(|sandbox| &sandbox.id).collect();
        self.waiting.retain(|id, _| ids.contains(id));
        self.free.retain(|id, _| ids.contains(id));
        for sandbox in living {
            match sandbox.node_id {
                Some(_) => self.ensure_driver(sandbox),
                None => self.consider(sandbox).await,
            }
        }
        self.eyes.saw();
        true
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
                self.seats.remove(&id);
            }
        }
    }

    /// Tells the drivers whose sandbox is no longer among the living, after a look at that very row: a list
    /// may be cut short, and what is told here is killed.
    async fn tell_those_that_are_over(&self, living: &[Sandbox]) {
        let ids: HashSet<&SandboxId> = living.iter().map(|sandbox| &sandbox.id).collect();
        for (id, seat) in
            self.seats.iter().filter(|(id, seat)| !ids.contains(id) && !seat.over.is_cancelled())
        {
            match self.parts.store.find_sandbox(id).await {
                Ok(Some(row)) if !row.state.is_terminal() => {}
                Ok(_) => seat.over.cancel(),
                Err(error) => tracing::warn!(sandbox = %id, %error, "cannot read the row; looking again"),
            }
        }
    }

    /// What this node holds, and what waits to be taken up. Oldest first, so that what waited longest is started
    /// first.
    async fn living(&self) -> sunaba_store::Result<Vec<Sandbox>> {
        let me = HeldBy::Node(self.parts.nodes.me().clone());
        let mut living = Vec::new();
        for name in self.parts.providers.keys() {
            living.extend(self.list(name, me.clone(), LOOK_MAX).await?);
            if self.parts.settings.takes_up {
                living.extend(self.list(name, HeldBy::Nobody, FREE_MAX).await?);
            }
        }
        living.sort_by(|a, b| a.created_at.cmp(&b.created_at).then_with(|| a.id.cmp(&b.id)));
        Ok(living)
    }

    async fn list(&self, provider: &str, held_by: HeldBy, limit: u32) -> sunaba_store::Result<Vec<Sandbox>> {
        let filter = SandboxFilter {
            states: LIVING.to_vec(),
            provider: Some(provider.to_owned()),
            held_by: Some(held_by),
            limit,
            ..SandboxFilter::default()
        };
        self.parts.store.list_sandboxes(filter).await
    }

    fn ensure_driver(&mut self, sandbox: Sandbox) {
        if let Some(seat) = self.seats.get(&sandbox.id) {
            seat.row.send_if_modified(|known| {
                // One that went on and was done again between two looks is in the same state, but anew.
                let seen = |row: &Sandbox| (row.state, row.state_entered_at);
                let told = |row: &Sandbox| (row.terms.suspended.clone(), row.terms.crashed.clone());
                let changed = seen(known) != seen(&sandbox) || told(known) != told(&sandbox);
                *known = sandbox;
                changed
            });
            return;
        }
        let Some(provider) = self.parts.provider(&sandbox.provider).cloned() else { return };
        let over = CancellationToken::new();
        let (sender, row) = watch::channel(sandbox.clone());
        self.seats.insert(sandbox.id.clone(), Seat { over: over.clone(), row: sender });
        let driver = Driver {
            parts: Arc::clone(&self.parts),
            gates: Arc::clone(&self.gates),
            provider,
            over,
            row,
            eyes: self.eyes.clone(),
        };
        let id = sandbox.id.clone();
        let task = self.drivers.spawn(driver.drive(sandbox));
        self.driven_by.insert(task.id(), id);
    }

    /// Takes up a sandbox that nobody holds, if there is room and no better node.
    async fn consider(&mut self, sandbox: Sandbox) {
        let known_for = self.free.entry(sandbox.id.clone()).or_insert_with(Instant::now).elapsed();
        let nodes = self.parts.nodes.list().await.unwrap_or_default();
        if let Some(lack) = capacity::lack(&self.parts.settings, self.seats.len()) {
            if known_for >= WAITING_IS_SAID_AFTER || !has_others(&nodes, &self.parts) {
                self.wait(&sandbox, lack, known_for).await;
            }
            return;
        }
        if known_for < COURTESY && !self.is_first_choice(&nodes, &sandbox).await {
            return;
        }
        match self.parts.store.claim_sandbox(&sandbox.id, self.parts.nodes.me()).await {
            Ok(Some(claimed)) => {
                self.waiting.remove(&claimed.id);
                self.free.remove(&claimed.id);
                self.ensure_driver(claimed);
            }
            Ok(None) => drop(self.free.remove(&sandbox.id)),
            Err(error) => {
                tracing::warn!(sandbox = %sandbox.id, %error, "cannot take up a sandbox; trying again");
            }
        }
    }

    async fn is_first_choice(&self, nodes: &[Node], sandbox: &Sandbox) -> bool {
        if !has_others(nodes, &self.parts) {
            return true;
        }
        let home = match &sandbox.project_id {
            Some(id) => self.parts.store.find_project(id).await.ok().flatten().and_then(|it| it.home_node),
            None => None,
        };
        let (me, own) = (self.parts.nodes.me(), self.seats.len());
        placement::is_first_choice(nodes, me, own, &sandbox.provider, home.as_ref())
    }

    /// Leaves a sandbox pending, says why (once, however many nodes are full), and fails it when it waited too long.
    async fn wait(&mut self, sandbox: &Sandbox, lack: String, known_for: Duration) {
        let waited = self.parts.clock.now().duration_since(sandbox.created_at);
        let most = self.parts.settings.pending_deadline;
        if u64::try_from(waited.as_secs()).unwrap_or(0) >= most.as_secs() && known_for >= SEEN_FOR.min(most) {
            let words = format!("it waited {} h for its turn: {lack}", most.as_secs() / 3600);
            driver::fail(&self.parts, &sandbox.id, &words).await;
            return;
        }
        if !self.waiting.contains_key(&sandbox.id) {
            if self.waiting.is_empty() {
                tracing::warn!(reason = lack, "no sandbox is started; those that are asked for wait");
            }
            record_once(&self.parts, &sandbox.id, "sandbox.waiting", &json!({ "reason": lack })).await;
            self.waiting.insert(sandbox.id.clone(), lack);
        }
    }
}

fn has_others(nodes: &[Node], parts: &Parts) -> bool {
    nodes.iter().any(|node| node.report.id != *parts.nodes.me() && node.is_up())
}

/// Looks at the other nodes until it is dropped.
async fn watch_nodes(parts: Arc<Parts>) {
    let mut watchman = Watchman::default();
    loop {
        let began = std::time::Instant::now();
        let went_well = watchman.look(&parts).await;
        parts.nodes.loops().round("nodes", began, went_well);
        tokio::time::sleep(NODES_EVERY).await;
    }
}

#[cfg(test)]
mod tests;
