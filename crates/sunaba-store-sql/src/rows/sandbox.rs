//! Sandboxes.

use sunaba_types::{NodeId, ProjectId, Resources, Sandbox, SandboxId, SandboxState, TaskId};

use super::{Unreadable, maybe_time, readable, time};

/// A row of `sandboxes` with what its log says of it.
#[derive(Debug)]
pub struct SandboxRow {
    pub id: String,
    pub project_id: Option<String>,
    pub task_id: Option<String>,
    pub attempt: i64,
    pub provider: String,
    pub provider_ref: Option<String>,
    pub node_id: Option<String>,
    pub state: String,
    pub state_entered_at: i64,
    pub reason: Option<String>,
    pub runtime: String,
    pub model: String,
    pub prompt: String,
    pub branch_name: Option<String>,
    pub base_commit: Option<String>,
    pub head_commit: Option<String>,
    pub isolation: Option<String>,
    pub memory_gb: f64,
    pub cpu: f64,
    pub disk_gb: f64,
    pub terms: String,
    pub exit: Option<String>,
    pub cost_micros: i64,
    pub alive_until: Option<i64>,
    pub silence_seconds: i64,
    pub created_at: i64,
    pub ended_at: Option<i64>,
}

impl TryFrom<SandboxRow> for Sandbox {
    type Error = Unreadable;

    fn try_from(row: SandboxRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "sandboxes";
        let key = row.id.clone();
        Ok(Self {
            id: readable(SandboxId::parse(row.id).ok(), TABLE, "id", &key)?,
            project_id: row.project_id.and_then(|id| ProjectId::parse(id).ok()),
            task_id: row.task_id.and_then(|id| TaskId::parse(id).ok()),
            attempt: row.attempt,
            provider: row.provider,
            provider_ref: row.provider_ref,
            node_id: row.node_id.and_then(|id| NodeId::parse(id).ok()),
            state: readable(SandboxState::parse(&row.state), TABLE, "state", &key)?,
            state_entered_at: time(row.state_entered_at, TABLE, "state_entered_at", &key)?,
            reason: row.reason,
            runtime: row.runtime,
            model: row.model,
            prompt: row.prompt,
            branch_name: row.branch_name,
            base_commit: row.base_commit,
            head_commit: row.head_commit,
            isolation: row.isolation,
            resources: Resources { memory_gb: row.memory_gb, cpu: row.cpu, disk_gb: row.disk_gb },
            terms: readable(serde_json::from_str(&row.terms).ok(), TABLE, "terms", &key)?,
            exit: match row.exit {
                Some(text) => Some(readable(serde_json::from_str(&text).ok(), TABLE, "exit", &key)?),
                None => None,
            },
            cost_micros: row.cost_micros,
            alive_until: maybe_time(row.alive_until, TABLE, "alive_until", &key)?,
            silence_seconds: row.silence_seconds,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            ended_at: maybe_time(row.ended_at, TABLE, "ended_at", &key)?,
        })
    }
}
