//! What another node has, shown as if it were here: files of mirrors, output and usage of sandboxes.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sunaba_nodes::{Error, Nodes, Where};
use sunaba_server::{Between, FileSource, LiveUsage, LogSource, Patch, Shown, SourceError};
use sunaba_types::shim::ResourceUse;
use sunaba_types::{NodeId, Sandbox};

use crate::client::query;

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
        Error::Refused { code, detail, .. } if code == "step_not_pushed" => SourceError::NotPushed(detail),
        Error::Refused { code, detail, .. } if code == "path_not_found" => SourceError::NoSuchPath(detail),
        Error::Refused { code, detail, .. } if code == "file_too_large" => SourceError::TooLarge(detail),
        Error::Refused { status: 404, detail, .. } => SourceError::Absent(detail),
        gone @ Error::Gone(_) => SourceError::Absent(gone.to_string()),
        other => SourceError::Failed(Box::new(other)),
    }
}

impl<T> AnyNode<T> {
    /// The node that has a sandbox's repository, when it is another one.
    async fn home(&self, sandbox: &Sandbox) -> Result<Option<NodeId>, SourceError> {
        let Some(project) = &sandbox.project_id else { return Ok(None) };
        match self.nodes.known_home(project).await.map_err(unreadable)? {
            None | Some(Where::Here) => Ok(None),
            Some(Where::There(node)) => Ok(Some(node)),
        }
    }

    async fn ask_json<R: serde::de::DeserializeOwned>(
        &self,
        node: &NodeId,
        sandbox: &Sandbox,
        what: &str,
        params: &[(&str, Option<&str>)],
    ) -> Result<R, SourceError> {
        let text = self.ask(node, sandbox, &format!("{what}?{}", query(params))).await?;
        serde_json::from_slice(&text).map_err(|error| SourceError::Failed(Box::new(error)))
    }
}

#[async_trait]
impl<T: FileSource> FileSource for AnyNode<T> {
    async fn patch(&self, sandbox: &Sandbox, between: &Between) -> Result<Patch, SourceError> {
        let Some(home) = self.home(sandbox).await? else { return self.here.patch(sandbox, between).await };
        let Between { from, to, path } = between;
        let params = [("from", Some(from.as_str())), ("to", to.as_deref()), ("path", path.as_deref())];
        self.ask_json(&home, sandbox, "patch", &params).await
    }

    async fn show(&self, sandbox: &Sandbox, tree: &str, path: &str) -> Result<Shown, SourceError> {
        let Some(home) = self.home(sandbox).await? else { return self.here.show(sandbox, tree, path).await };
        self.ask_json(&home, sandbox, "show", &[("tree", Some(tree)), ("path", Some(path))]).await
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
