//! Nodes: servers that share one database, each with its own data directory.

use serde::{Deserialize, Serialize};

use crate::state::wire_enum;
use crate::{NodeId, Timestamp};

wire_enum!(
    /// What a node does.
    Role {
        /// Answers clients.
        Api => "api",
        /// Starts sandboxes and looks after them.
        Orchestrator => "orchestrator",
    }
);

/// What a node says of itself, again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its id, kept in its data directory.
    pub id: NodeId,
    /// Which process: another one with the same id takes its place.
    pub instance: String,
    /// Which machine, as far as it can tell: the same id on another machine is a copied data directory.
    pub host: String,
    /// Where other nodes reach it.
    pub address: String,
    /// The program's version.
    pub version: String,
    /// What it does.
    pub roles: Vec<Role>,
    /// What makes sandboxes there.
    pub providers: Vec<String>,
    /// How many sandboxes may live there.
    pub max_sandboxes: i64,
    /// How its loops fare: names and figures, for people.
    pub loops: serde_json::Value,
    /// Since when this process runs.
    pub started_at: Timestamp,
}

/// A node as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it last said of itself.
    pub report: NodeReport,
    /// When it last said so, by the store's clock.
    pub beat_at: Timestamp,
    /// How long ago that was, by the store's clock.
    pub silent_for: std::time::Duration,
    /// When it said that it stops, if it did.
    pub left_at: Option<Timestamp>,
    /// When it was given up, if it was.
    pub lost_at: Option<Timestamp>,
    /// How many living sandboxes it holds.
    pub sandboxes: i64,
}

impl Node {
    /// Whether it can be asked for something now.
    pub fn is_up(&self) -> bool {
        self.left_at.is_none() && self.silent_for < crate::limits::NODE_SILENCE
    }

    /// Whether it does this.
    pub fn has_role(&self, role: Role) -> bool {
        self.report.roles.contains(&role)
    }
}
