//! Nodes that all are full.

use std::path::Path;

use sunaba_nodes::Nodes;
use sunaba_store::EventQuery;
use sunaba_types::{NodeId, SandboxId};

use super::*;
use crate::made::{parts, sandbox};

/// A node without room, on the rows of `parts`.
async fn full_node(rows: &Parts, dir: &Path, most: usize) -> Orchestrator {
    let mut own = parts(dir).await;
    own.store = Arc::clone(&rows.store);
    own.nodes = Nodes::new(NodeId::generate(), Arc::clone(&rows.store), "token".into()).unwrap();
    own.settings.max_sandboxes = most;
    own.settings.disk_free_bytes = u64::MAX;
    Orchestrator::new(own)
}

async fn said(parts: &Parts, id: &SandboxId) -> Vec<String> {
    let query =
        EventQuery { event_types: vec!["sandbox.waiting".into()], ..EventQuery::newest(id.clone(), 10) };
    let page = parts.store.list_events(query).await.unwrap();
    page.events.iter().map(|event| event.payload.as_str().to_owned()).collect()
}

#[tokio::test]
async fn a_wait_is_said_once_however_many_nodes_are_full() {
    let dir = tempfile::tempdir().unwrap();
    let parts = parts(dir.path()).await;
    let waiting = sandbox(&parts).await;
    // Each for a reason of its own, and one of them after a restart.
    for most in [0, 1, 0, 1] {
        let dir = tempfile::tempdir().unwrap();
        let mut node = full_node(&parts, dir.path(), most).await;
        node.consider(waiting.clone()).await;
        node.consider(waiting.clone()).await;
    }
    let said = said(&parts, &waiting.id).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("max_sandboxes"), "{said:?}");
}
