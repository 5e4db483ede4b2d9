//! Tasks.

use sunaba_types::{Outcome, Priority, ProjectId, SandboxId, Task, TaskId, TaskState, TicketId};

use super::{Unreadable, maybe_time, readable, time};

/// A row of `tasks`.
#[derive(Debug)]
pub struct TaskRow {
    pub id: String,
    pub ticket_id: String,
    pub project_id: String,
    pub phase_id: Option<String>,
    pub task_type: String,
    pub title: String,
    pub description: String,
    pub priority: String,
    pub status: String,
    pub sandbox_id: Option<String>,
    pub assigned_agent_id: Option<String>,
    pub attempt: i64,
    pub outcome: Option<String>,
    pub result: Option<String>,
    pub error_message: Option<String>,
    pub execution_config: String,
    pub created_at: i64,
    pub updated_at: i64,
    pub started_at: Option<i64>,
    pub completed_at: Option<i64>,
}

impl TryFrom<TaskRow> for Task {
    type Error = Unreadable;

    fn try_from(row: TaskRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "tasks";
        let key = row.id.clone();
        let result = row.result.map(|text| readable(serde_json::from_str(&text).ok(), TABLE, "result", &key));
        let outcome = row.outcome.map(|text| readable(Outcome::parse(&text), TABLE, "outcome", &key));
        Ok(Self {
            id: readable(TaskId::parse(row.id).ok(), TABLE, "id", &key)?,
            ticket_id: readable(TicketId::parse(row.ticket_id).ok(), TABLE, "ticket_id", &key)?,
            project_id: readable(ProjectId::parse(row.project_id).ok(), TABLE, "project_id", &key)?,
            phase_id: row.phase_id,
            task_type: row.task_type,
            title: row.title,
            description: row.description,
            priority: readable(Priority::parse(&row.priority), TABLE, "priority", &key)?,
            status: readable(TaskState::parse(&row.status), TABLE, "status", &key)?,
            sandbox_id: row.sandbox_id.and_then(|id| SandboxId::parse(id).ok()),
            assigned_agent_id: row.assigned_agent_id,
            attempt: row.attempt,
            outcome: outcome.transpose()?,
            result: result.transpose()?,
            error_message: row.error_message,
            execution_config: readable(
                serde_json::from_str(&row.execution_config).ok(),
                TABLE,
                "execution_config",
                &key,
            )?,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            updated_at: time(row.updated_at, TABLE, "updated_at", &key)?,
            started_at: maybe_time(row.started_at, TABLE, "started_at", &key)?,
            completed_at: maybe_time(row.completed_at, TABLE, "completed_at", &key)?,
        })
    }
}
