//! What another node has, shown as if it were here: diffs of mirrors, output and usage of sandboxes.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sunaba_nodes::{Error, Nodes, Where};
use sunaba_server::{DiffSource, LiveUsage, LogSource, SourceError};
use sunaba_types::shim::ResourceUse;
use sunaba_types::{NodeId, Sandbox};

/// How long another node may take to show something.
const PATIENCE: Duration = Duration::from_secs(30);

/// A source that shows what is here itself, and asks the node that has the rest.
#[derive(Debug)]
pub(super) struct AnyNode<T> {
    pub(super) nodes: Nodes,
    pub(super) here: T,
}

impl<T> AnyNode<T> {
    /// The node that holds a sandbox.
    fn holder(&self, sandbox: &Sandbox) -> Where {
        sandbox.node_id.as_ref().map_or(Where::Here, |node| self.nodes.place(node))
    }

    async fn ask(&self, node: &NodeId, sandbox: &Sandbox, what: &str) -> Result<Bytes, SourceError> {
        let path = format!("/sandboxes/{}/{what}", sandbox.id);
        self.nodes.get_bytes(node, &path, PATIENCE).await.map_err(unreadable)
    }
}

fn unreadable(error: Error) -> SourceError {
    match error {
        Error::Refused { status: 404, detail, .. } => SourceError::Absent(detail),
        gone @ Error::Gone(_) => SourceError::Absent(gone.to_string()),
        other => SourceError::Failed(Box::new(other)),
    }
}

#[async_trait]
impl<T: DiffSource> DiffSource for AnyNode<T> {
    async fn diff(&self, sandbox: &Sandbox) -> Result<String, SourceError> {
        let Some(project) = &sandbox.project_id else { return self.here.diff(sandbox).await };
        match self.nodes.known_home(project).await.map_err(unreadable)? {
            None | Some(Where::Here) => self.here.diff(sandbox).await,
            Some(Where::There(node)) => {
                let text = self.ask(&node, sandbox, "diff").await?;
                Ok(String::from_utf8_lossy(&text).into_owned())
            }
        }
    }
}

#[async_trait]
impl<T: LogSource> LogSource for AnyNode<T> {
    async fn raw_output(&self, sandbox: &Sandbox, max_bytes: u64) -> Result<Bytes, SourceError> {
        match self.holder(sandbox) {
            Where::Here => self.here.raw_output(sandbox, max_bytes).await,
            Where::There(node) => self.ask(&node, sandbox, &format!("output?bytes={max_bytes}")).await,
        }
    }
}

#[async_trait]
impl<T: LiveUsage> LiveUsage for AnyNode<T> {
    async fn usage(&self, sandbox: &Sandbox) -> Result<ResourceUse, SourceError> {
        match self.holder(sandbox) {
            Where::Here => self.here.usage(sandbox).await,
            Where::There(node) => {
                let text = self.ask(&node, sandbox, "usage").await?;
                serde_json::from_slice(&text).map_err(|error| SourceError::Failed(Box::new(error)))
            }
        }
    }
}
