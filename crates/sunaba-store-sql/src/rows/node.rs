//! Nodes.

use std::time::Duration;

use serde_json::json;
use sunaba_store::Error;
use sunaba_types::limits::NODE_SILENCE;
use sunaba_types::{Node, NodeId, NodeReport};

use super::{Unreadable, maybe_time, readable, time};

/// A row of `nodes`, with how long ago its last word was and how many living sandboxes it holds.
#[derive(Debug)]
pub struct NodeRow {
    pub id: String,
    pub instance: String,
    pub host: String,
    pub address: String,
    pub version: String,
    pub roles: String,
    pub providers: String,
    pub max_sandboxes: i64,
    pub loops: String,
    pub started_at: i64,
    pub beat_at: i64,
    pub left_at: Option<i64>,
    pub lost_at: Option<i64>,
    pub silent_micros: i64,
    pub sandboxes: i64,
}

impl TryFrom<NodeRow> for Node {
    type Error = Unreadable;

    fn try_from(row: NodeRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "nodes";
        let key = row.id.clone();
        Ok(Self {
            report: NodeReport {
                id: readable(NodeId::parse(row.id).ok(), TABLE, "id", &key)?,
                instance: row.instance,
                host: row.host,
                address: row.address,
                version: row.version,
                roles: readable(serde_json::from_str(&row.roles).ok(), TABLE, "roles", &key)?,
                providers: readable(serde_json::from_str(&row.providers).ok(), TABLE, "providers", &key)?,
                max_sandboxes: row.max_sandboxes,
                loops: readable(serde_json::from_str(&row.loops).ok(), TABLE, "loops", &key)?,
                started_at: time(row.started_at, TABLE, "started_at", &key)?,
            },
            beat_at: time(row.beat_at, TABLE, "beat_at", &key)?,
            // A clock that was set back says nothing against a node.
            silent_for: Duration::from_micros(u64::try_from(row.silent_micros).unwrap_or(0)),
            left_at: maybe_time(row.left_at, TABLE, "left_at", &key)?,
            lost_at: maybe_time(row.lost_at, TABLE, "lost_at", &key)?,
            sandboxes: row.sandboxes,
        })
    }
}

/// The parts of a report that are kept as JSON.
#[derive(Debug)]
pub struct ReportText {
    pub roles: String,
    pub providers: String,
    pub loops: String,
}

impl ReportText {
    /// As it is written.
    pub fn of(report: &NodeReport) -> Self {
        let text = |value: serde_json::Value| value.to_string();
        Self {
            roles: text(json!(report.roles)),
            providers: text(json!(report.providers)),
            loops: text(json!(report.loops)),
        }
    }
}

/// Who was a node before, as far as the next process has to know.
#[derive(Debug)]
pub struct FormerProcess {
    pub host: String,
    pub left_at: Option<i64>,
    pub silent_micros: i64,
}

/// Whether a process may become a node.
pub fn may_enter(report: &NodeReport, before: Option<&FormerProcess>) -> Result<(), Error> {
    let silence = i64::try_from(NODE_SILENCE.as_micros()).unwrap_or(i64::MAX);
    match before {
        Some(process)
            if process.host != report.host
                && process.left_at.is_none()
                && process.silent_micros < silence =>
        {
            Err(taken(&report.id, "a server on another machine is this node and lives"))
        }
        _ => Ok(()),
    }
}

/// Somebody else is the node.
pub fn taken(id: &NodeId, why: &str) -> Error {
    let detail = format!(
        "{why} ({id}): every server needs a data directory of its own; in a copied one remove the file node-id"
    );
    Error::conflict("node_taken", detail)
}

/// What a beat says when its row is not this process's any more.
pub fn overtaken(id: &NodeId) -> Error {
    taken(id, "another server has taken the place of this node")
}
