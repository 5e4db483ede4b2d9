//! What is written at once: new sandboxes, and what becomes of tickets.

use serde_json::json;
use sunaba_store::{Error, NewSandbox};
use sunaba_store_sql::draft::TicketTouch;
use sunaba_types::{Resources, Sandbox, TicketStatus};

use super::Unit;
use crate::fault::Fault;

impl Unit {
    /// Makes a sandbox as it was asked for, and claims its task.
    pub(crate) async fn make_sandbox(&mut self, new: &NewSandbox) -> Result<Sandbox, Fault> {
        if let Some(task_id) = &new.task_id {
            self.find_task(task_id).await?;
        }
        let planned = self.draft.plan_sandbox(new)?;
        if let Some(project_id) = &planned.row.project_id {
            let key = project_id.as_str();
            let held = sqlx::query_scalar!("SELECT id FROM projects WHERE id = ?1", key)
                .fetch_optional(self.sql())
                .await?;
            held.ok_or_else(|| Error::not_found("project", project_id))?;
        }
        let row = planned.row.clone();
        self.insert_sandbox(row.clone()).await?;
        if let Some(touch) = self.draft.task_claimed(planned) {
            self.touch_ticket(&touch).await?;
        }
        Ok(row)
    }

    /// Stores a new sandbox and says so.
    pub(crate) async fn insert_sandbox(&mut self, row: Sandbox) -> Result<(), Fault> {
        let (id, state) = (row.id.as_str(), row.state.as_str());
        let (entered, created) = (row.state_entered_at.as_microsecond(), row.created_at.as_microsecond());
        let project_id = row.project_id.as_ref().map(|id| id.as_str());
        let task_id = row.task_id.as_ref().map(|id| id.as_str());
        let Resources { memory_gb, cpu, disk_gb } = row.resources;
        let terms = json!(row.terms).to_string();
        sqlx::query!(
            "INSERT INTO sandboxes (id, project_id, task_id, attempt, provider, state, state_entered_at,
                                    runtime, model, prompt, memory_gb, cpu, disk_gb, created_at, terms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            id,
            project_id,
            task_id,
            row.attempt,
            row.provider,
            state,
            entered,
            row.runtime,
            row.model,
            row.prompt,
            memory_gb,
            cpu,
            disk_gb,
            created,
            terms
        )
        .execute(self.sql())
        .await?;
        let genesis = sunaba_types::chain::GENESIS.to_vec();
        sqlx::query!(
            "INSERT INTO sandbox_log (sandbox_id, last_hash, silence_seconds) VALUES (?1, ?2, ?3)",
            id,
            genesis,
            row.silence_seconds
        )
        .execute(self.sql())
        .await?;
        self.draft.sandbox_made(row);
        Ok(())
    }

    /// Sets a ticket's branch or status.
    pub(crate) async fn touch_ticket(&mut self, touch: &TicketTouch) -> Result<(), Fault> {
        let (now, ticket) = (self.now().as_microsecond(), touch.ticket_id.as_str());
        let (branch_name, status) = (touch.branch_name.as_deref(), touch.status.map(TicketStatus::as_str));
        sqlx::query!(
            "UPDATE tickets SET branch_name = coalesce(?2, branch_name), status = coalesce(?3, status),
                                updated_at = ?4
             WHERE id = ?1",
            ticket,
            branch_name,
            status,
            now
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }
}
