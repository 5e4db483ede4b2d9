//! A sandbox that has only its egress, and what was decided for it. The worker's suite has this file too.

use serde_json::Value;
use sunaba_store::{EventQuery, NewProject, NewSandbox, Store};
use sunaba_types::{Egress, ProjectSettings, Resources, Sandbox, SandboxId, Terms};

/// Makes it.
pub(super) async fn sandbox(store: &dyn Store, egress: Egress) -> Sandbox {
    let project = NewProject {
        name: "p".into(),
        repo_path: Some("/nowhere".into()),
        repo_url: None,
        default_branch: "main".into(),
        settings: ProjectSettings::default(),
    };
    let project = store.ensure_project(project).await.unwrap();
    let sandbox = NewSandbox {
        project_id: Some(project.id),
        task_id: None,
        provider: "local".into(),
        runtime: "native".into(),
        model: "m".into(),
        prompt: "p".into(),
        resources: Resources::default(),
        terms: Terms { egress: Some(egress), ..Terms::default() },
    };
    store.create_sandbox(sandbox).await.unwrap()
}

/// The decisions in its log, oldest first.
pub(super) async fn decisions(store: &dyn Store, id: &SandboxId) -> Vec<Value> {
    let mut query = EventQuery::newest(id.clone(), 1000);
    query.event_types = vec!["gateway.egress".to_owned()];
    let page = store.list_events(query).await.unwrap();
    page.events.iter().rev().map(|event| event.payload.to_value()).collect()
}
