//! What the tests of this crate share: its parts over a real store, without any provider, and a sandbox's row.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sunaba_nodes::Nodes;
use sunaba_store::{NewProject, NewSandbox, NewTask, NewTicket};
use sunaba_types::{
    Clock, Node, NodeId, NodeReport, Priority, ProjectSettings, Resources, Role, Sandbox, SandboxId,
    SystemClock, Terms, TicketType, Timestamp,
};

use crate::{Doors, Home, Parts, Settings, Shelf};

#[derive(Debug)]
struct NoDoors;

#[async_trait]
impl Doors for NoDoors {
    async fn open(&self, _: &SandboxId, _: &Path) -> std::io::Result<()> {
        Ok(())
    }

    async fn close(&self, _: &SandboxId) {}

    fn has_tunnel(&self, _: &SandboxId) -> bool {
        false
    }

    fn signs(&self, _: &SandboxId) -> u64 {
        0
    }
}

pub(crate) async fn parts(dir: &Path) -> Parts {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = sunaba_testkit::open_store(dir, Arc::clone(&clock)).await;
    let home = Home {
        store: Arc::clone(&store),
        git_root: dir.join("git"),
        git_locks: Arc::default(),
        secrets: None,
        git_patience: Duration::from_secs(5),
    };
    Parts {
        nodes: Nodes::new(NodeId::generate(), Arc::clone(&store), "token".into()).unwrap(),
        home,
        store,
        providers: std::collections::BTreeMap::new(),
        doors: Arc::new(NoDoors),
        clock,
        mint_token: || unreachable!("nothing is started"),
        settings: Settings::new(dir.to_owned()),
        shelf: Shelf::new(dir.join("layers")),
    }
}

pub(crate) async fn sandbox(parts: &Parts) -> Sandbox {
    let store = &parts.store;
    let project = NewProject {
        name: "p".into(),
        repo_path: Some("/nowhere".into()),
        repo_url: None,
        default_branch: "main".into(),
        settings: ProjectSettings::default(),
    };
    let project_id = store.ensure_project(project).await.unwrap().id;
    let ticket = NewTicket {
        project_id: project_id.clone(),
        title: "t".into(),
        description: String::new(),
        ticket_type: TicketType::Feature,
        priority: Priority::Medium,
        owner: "o".into(),
    };
    let task = NewTask {
        ticket_id: store.create_ticket(ticket).await.unwrap().id,
        task_type: "implement".into(),
        title: "t".into(),
        description: String::new(),
        priority: Priority::Medium,
        execution_config: sunaba_types::ExecutionConfig::default(),
    };
    let sandbox = NewSandbox {
        project_id: Some(project_id),
        task_id: Some(store.create_task(task).await.unwrap().id),
        provider: "local".into(),
        runtime: "native".into(),
        model: "m".into(),
        prompt: "p".into(),
        resources: Resources::default(),
        terms: Terms::default(),
    };
    store.create_sandbox(sandbox).await.unwrap()
}

/// The next attempt at the task of a sandbox.
pub(crate) async fn again(parts: &Parts, past: &Sandbox) -> Sandbox {
    let next = NewSandbox {
        project_id: past.project_id.clone(),
        task_id: past.task_id.clone(),
        provider: past.provider.clone(),
        runtime: past.runtime.clone(),
        model: past.model.clone(),
        prompt: past.prompt.clone(),
        resources: past.resources,
        terms: past.terms.clone(),
    };
    parts.store.create_sandbox(next).await.unwrap()
}

/// A node that is up and starts local sandboxes.
pub(crate) fn node(id: &str) -> Node {
    Node {
        report: NodeReport {
            id: NodeId::parse(id).unwrap(),
            instance: "i".into(),
            host: "h".into(),
            address: "http://x".into(),
            version: "1".into(),
            roles: Role::ALL.to_vec(),
            providers: vec!["local".into()],
            max_sandboxes: 10,
            loops: serde_json::Value::Null,
            started_at: Timestamp::UNIX_EPOCH,
        },
        beat_at: Timestamp::UNIX_EPOCH,
        silent_for: Duration::ZERO,
        left_at: None,
        lost_at: None,
        sandboxes: 0,
    }
}
