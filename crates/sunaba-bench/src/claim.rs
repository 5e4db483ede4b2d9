//! Taking up sandboxes that wait, by the store itself: the way each node's orchestrator does it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use sunaba_store::{HeldBy, NewProject, NewSandbox, NewTask, NewTicket, SandboxFilter, Store};
use sunaba_store_postgres::PostgresStore;
use sunaba_store_sqlite::SqliteStore;
use sunaba_types::{
    NodeId, Priority, ProjectSettings, Resources, SandboxId, SandboxState, SystemClock, Terms, TicketId,
    TicketType,
};
use tokio::task::JoinSet;

use crate::table::Delays;

/// How many sandboxes are taken up at each length of the queue.
pub(crate) const CLAIMS: usize = 300;
pub(crate) const WANTED: &str = "wanted ≤ 5 ms";
/// How many wait in line to be made at once.
const MAKERS: usize = 64;
/// As many as an orchestrator looks through at once.
const LOOK_MAX: u32 = 200;
const PROVIDER: &str = "local";

pub(crate) async fn open_postgres(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let options = sunaba_store_postgres::Options::new(url, Arc::new(SystemClock));
    Ok(PostgresStore::open(options).await?)
}

/// The store of a data directory that no server uses at the moment.
pub(crate) async fn open_sqlite(data: &Path) -> anyhow::Result<Arc<dyn Store>> {
    let options = sunaba_store_sqlite::Options::new(data.join("sunaba.db"), Arc::new(SystemClock));
    Ok(SqliteStore::open(options).await?)
}

/// Sandboxes that wait, each for a task of its own, the oldest first.
#[derive(Debug)]
pub(crate) struct Queue {
    ticket: TicketId,
    waiting: VecDeque<SandboxId>,
}

impl Queue {
    /// None wait yet.
    pub(crate) async fn new(store: &dyn Store) -> anyhow::Result<Self> {
        let project = NewProject {
            name: "bench".to_owned(),
            repo_path: Some("/bench".to_owned()),
            repo_url: None,
            default_branch: "main".to_owned(),
            settings: ProjectSettings::default(),
        };
        let ticket = NewTicket {
            project_id: store.ensure_project(project).await?.id,
            title: "bench".to_owned(),
            description: String::new(),
            ticket_type: TicketType::Feature,
            priority: Priority::Medium,
            owner: "bench".to_owned(),
        };
        Ok(Self { ticket: store.create_ticket(ticket).await?.id, waiting: VecDeque::new() })
    }

    /// Adds sandboxes until so many wait.
    pub(crate) async fn grow_to(&mut self, store: &Arc<dyn Store>, size: usize) -> anyhow::Result<()> {
        let mut makers = JoinSet::new();
        let lacking = size.saturating_sub(self.waiting.len());
        for maker in 0..MAKERS {
            let share = lacking / MAKERS + usize::from(maker < lacking % MAKERS);
            let (store, ticket) = (Arc::clone(store), self.ticket.clone());
            makers.spawn(async move {
                let mut made = Vec::with_capacity(share);
                for _ in 0..share {
                    made.push(make(&*store, &ticket).await?);
                }
                anyhow::Ok(made)
            });
        }
        while let Some(made) = makers.join_next().await {
            self.waiting.extend(made??);
        }
        Ok(())
    }

    /// The first of them, to be taken up.
    pub(crate) fn take(&mut self, count: usize) -> Vec<SandboxId> {
        self.waiting.drain(..count.min(self.waiting.len())).collect()
    }
}

async fn make(store: &dyn Store, ticket: &TicketId) -> anyhow::Result<SandboxId> {
    let task = NewTask {
        ticket_id: ticket.clone(),
        task_type: "implement".to_owned(),
        title: "bench".to_owned(),
        description: "wait".to_owned(),
        priority: Priority::Medium,
        execution_config: sunaba_types::ExecutionConfig::default(),
    };
    let sandbox = NewSandbox {
        project_id: None,
        task_id: Some(store.create_task(task).await?.id),
        provider: PROVIDER.to_owned(),
        runtime: "native".to_owned(),
        model: "script:default".to_owned(),
        prompt: "wait".to_owned(),
        resources: Resources::default(),
        terms: Terms::default(),
    };
    Ok(store.create_sandbox(sandbox).await?.id)
}

/// Every store, as a node of its own, tries to take up each of these in turn; exactly one gets each. How long
/// each try took, won or lost.
pub(crate) async fn claim(stores: &[Arc<dyn Store>], ids: Vec<SandboxId>) -> anyhow::Result<Delays> {
    let ids: Arc<[SandboxId]> = ids.into();
    let mut nodes = JoinSet::new();
    for store in stores {
        let (store, ids, node) = (Arc::clone(store), Arc::clone(&ids), NodeId::generate());
        nodes.spawn(async move {
            let (mut delays, mut won) = (Delays::default(), 0);
            for id in ids.iter() {
                let asked = Instant::now();
                let claimed = store.claim_sandbox(id, &node).await?;
                delays.push(asked.elapsed());
                won += usize::from(claimed.is_some());
            }
            anyhow::Ok((delays, won))
        });
    }
    let (mut delays, mut taken) = (Delays::default(), 0);
    while let Some(node) = nodes.join_next().await {
        let (more, won) = node.context("a node's claims")??;
        delays.extend(more);
        taken += won;
    }
    ensure!(taken == ids.len(), "{taken} of {} waiting sandboxes were taken up", ids.len());
    Ok(delays)
}

/// How long the list takes that a node's orchestrator looks through.
pub(crate) async fn look(store: &dyn Store, times: usize) -> anyhow::Result<Delays> {
    let filter = SandboxFilter {
        states: vec![
            SandboxState::Pending,
            SandboxState::Creating,
            SandboxState::Running,
            SandboxState::Completing,
        ],
        provider: Some(PROVIDER.to_owned()),
        held_by: Some(HeldBy::Nobody),
        limit: LOOK_MAX,
        ..SandboxFilter::default()
    };
    let mut delays = Delays::default();
    for _ in 0..times {
        let asked = Instant::now();
        let found = store.list_sandboxes(filter.clone()).await?;
        delays.push(asked.elapsed());
        ensure!(!found.is_empty(), "nothing waits");
    }
    Ok(delays)
}
