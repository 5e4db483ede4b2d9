//! Nodes: who serves this database, which of them holds which sandbox and which project's mirror.

use std::time::Duration;

use async_trait::async_trait;
use sunaba_types::{Node, NodeId, NodeReport, ProjectId, Sandbox, SandboxId};

use crate::Result;

/// Whose sandboxes to list. Asked at every wake-up, so it goes together with states, provider and limit only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldBy {
    /// Those that this node holds, newest first.
    Node(NodeId),
    /// Those that wait to be taken up by any node, oldest first.
    Nobody,
}

/// Nodes and what they hold.
///
/// Ages are told by the store's own clock, which all nodes share; on PostgreSQL that is the database's.
#[async_trait]
pub trait NodeStore {
    /// A process begins to serve as this node. It takes the place of an earlier process of the same machine, is
    /// no longer said to have left or to be lost, and takes over what older versions left without a node where
    /// only one node can be (the embedded store). [`crate::Error::Conflict`] (`node_taken`) while a process of
    /// another machine beats under this id: a copied data directory.
    async fn enter_node(&self, report: &NodeReport) -> Result<()>;

    /// The node is still there. [`crate::Error::Conflict`] (`node_taken`) when another process has taken its
    /// place: this one must stop.
    async fn beat_node(&self, report: &NodeReport) -> Result<()>;

    /// The process stops in order; harmless when another has taken its place.
    async fn leave_node(&self, id: &NodeId, instance: &str) -> Result<()>;

    /// Every node that was ever seen and not forgotten, by id.
    async fn list_nodes(&self) -> Result<Vec<Node>>;

    /// Gives a node up that has been silent for at least so long. `false` if it was not silent so long, is not
    /// known or was given up before. What it held is then replaced one by one.
    async fn give_up_node(&self, id: &NodeId, silent_for: Duration) -> Result<bool>;

    /// Takes up a pending sandbox that nobody holds. `None` if somebody else was quicker or it is over.
    async fn claim_sandbox(&self, id: &SandboxId, node: &NodeId) -> Result<Option<Sandbox>>;

    /// Fails a living sandbox of a node that was given up; its task, if this is its present attempt and not
    /// the `most_attempts`th in a row that was lost so, gets a new sandbox on the same terms in the same transaction.
    /// Attempts that a message or the end of a wait began do not count. Gives the new one.
    /// Changes nothing when the node has come back or the sandbox is over.
    async fn replace_lost_sandbox(
        &self,
        id: &SandboxId,
        reason: &str,
        most_attempts: i64,
    ) -> Result<Option<Sandbox>>;

    /// The node that has the project's mirror: the one that asked first. One that was given up is replaced by
    /// whoever asks next, unless the repository is on its disk.
    async fn ensure_home(&self, project: &ProjectId, node: &NodeId) -> Result<NodeId>;
}
