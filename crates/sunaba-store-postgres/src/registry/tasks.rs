//! Tasks.

use async_trait::async_trait;
use sunaba_store::{Error, NewTask, Result, TaskFilter};
use sunaba_types::{ProjectId, Task, TaskState, TicketId};

use super::visible_list;
use crate::PostgresStore;
use crate::fault::Fault;
use crate::page::InTime as _;
use crate::rows::{all, readable, task_query};
use crate::unit::Unit;
use crate::writer::Command;

pub(super) struct CreateTask(pub(super) NewTask);

#[async_trait]
impl Command<Unit> for CreateTask {
    type Output = Task;

    async fn run(&self, unit: &mut Unit) -> Result<Task, Fault> {
        let new = &self.0;
        let ticket = new.ticket_id.as_str();
        let project = sqlx::query_scalar!("SELECT project_id FROM tickets WHERE id = $1", ticket)
            .fetch_optional(unit.sql())
            .await?
            .ok_or_else(|| Error::not_found("ticket", ticket))?;
        let project_id = readable(ProjectId::parse(project).ok(), "tickets", "project_id", ticket)?;
        let task = unit.draft.new_task(new, project_id);
        insert(unit, &task).await?;
        unit.draft.announce_task(&task, None);
        Ok(task)
    }
}

async fn insert(unit: &mut Unit, task: &Task) -> Result<(), Fault> {
    let (id, ticket, project) = (task.id.as_str(), task.ticket_id.as_str(), task.project_id.as_str());
    let (priority, status) = (task.priority.as_str(), task.status.as_str());
    let created = task.created_at.as_microsecond();
    let execution = serde_json::json!(task.execution_config).to_string();
    sqlx::query!(
        "INSERT INTO tasks (id, ticket_id, project_id, task_type, title, description, priority, status,
                            created_at, updated_at, execution_config)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10)",
        id,
        ticket,
        project,
        task.task_type,
        task.title,
        task.description,
        priority,
        status,
        created,
        execution
    )
    .execute(unit.sql())
    .await?;
    Ok(())
}

impl PostgresStore {
    pub(super) async fn read_tasks(&self, filter: TaskFilter) -> Result<Vec<Task>> {
        let status = filter.status.map(TaskState::as_str);
        let ticket = filter.ticket_id.as_ref().map(TicketId::as_str);
        let project = filter.project_id.as_ref().map(ProjectId::as_str);
        let visible = visible_list(filter.visible_projects.as_deref());
        let rows = task_query!(
            "WHERE ($1::text IS NULL OR t.status = $1) AND ($2::text IS NULL OR t.ticket_id = $2)
               AND ($3::text IS NULL OR t.project_id = $3)
               AND ($4::text[] IS NULL OR t.project_id = ANY($4))
             ORDER BY t.created_at DESC, t.id DESC LIMIT $5",
            status,
            ticket,
            project,
            visible.as_deref(),
            i64::from(filter.limit)
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        Ok(all(rows)?)
    }
}
