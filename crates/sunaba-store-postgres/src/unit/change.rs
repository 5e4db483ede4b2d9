//! State changes: the row, the log and the feed move together.

use serde_json::json;
use sunaba_store::Error;
use sunaba_types::{NewEvent, Resources, Sandbox, SandboxId, SandboxState, Task, TaskState, TicketStatus};

use super::{Notice, Unit};
use crate::fault::Fault;

/// The provider of sandboxes that run somewhere else.
pub(crate) const EXTERNAL: &str = "external";

impl Unit {
    /// Makes a sandbox known by its first event.
    pub(super) async fn register_external(&mut self, id: &SandboxId) -> Result<(), Fault> {
        let now = self.now();
        let row = Sandbox {
            id: id.clone(),
            project_id: None,
            task_id: None,
            attempt: 1,
            provider: EXTERNAL.to_owned(),
            provider_ref: None,
            state: SandboxState::Running,
            state_entered_at: now,
            reason: None,
            runtime: "external".to_owned(),
            model: String::new(),
            prompt: String::new(),
            branch_name: None,
            base_commit: None,
            head_commit: None,
            isolation: None,
            resources: Resources::default(),
            terms: sunaba_types::Terms::default(),
            exit: None,
            cost_micros: 0,
            alive_until: None,
            created_at: now,
            ended_at: None,
        };
        self.insert_sandbox(row).await
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
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
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
        let genesis = sunaba_types::chain::GENESIS;
        sqlx::query!(
            "INSERT INTO sandbox_log (sandbox_id, last_hash, silence_seconds) VALUES ($1, $2, $3)",
            id,
            &genesis[..],
            sunaba_types::limits::LEGACY_SILENCE_SECONDS
        )
        .execute(self.sql())
        .await?;
        let id = row.id.clone();
        self.know_sandbox(row);
        self.announce_sandbox(&id, "SANDBOX_SPAWNED");
        Ok(())
    }

    /// The task, if this sandbox is its present attempt.
    pub(crate) fn task_of(&mut self, id: &SandboxId) -> Option<&mut Task> {
        let (attempt, task_id) = {
            let row = &self.sandbox(id).row;
            (row.attempt, row.task_id.clone()?)
        };
        let task = self.state.tasks.get_mut(&task_id)?;
        (task.row.attempt == attempt).then_some(&mut task.row)
    }

    /// Moves a known sandbox to a state the engine has chosen.
    pub(crate) fn enter_sandbox_state(&mut self, id: &SandboxId, to: SandboxState, reason: Option<String>) {
        let now = self.now();
        let loaded = self.sandbox(id);
        let from = std::mem::replace(&mut loaded.row.state, to);
        loaded.row.state_entered_at = now;
        loaded.row_changed = true;
        if to.is_terminal() {
            loaded.row.ended_at = Some(now);
            loaded.row.alive_until = None;
            loaded.log_changed = true;
        }
        if reason.is_some() {
            loaded.row.reason.clone_from(&reason);
        }
        let mut told = json!({"from": from.as_str(), "to": to.as_str()});
        if let Some(reason) = reason {
            told["reason"] = reason.into();
        }
        let event = NewEvent::by_server(super::needs::STATE_CHANGED, &told);
        self.record(id, &event, "SANDBOX_STATE_CHANGED".to_owned());
        match to {
            SandboxState::Failed => self.announce_sandbox(id, "SANDBOX_FAILED"),
            SandboxState::Completed | SandboxState::Cancelled => {
                self.announce_sandbox(id, "SANDBOX_TERMINATED");
            }
            SandboxState::Pending
            | SandboxState::Creating
            | SandboxState::Running
            | SandboxState::Completing => {}
        }
        if to.is_terminal() {
            self.state.ended.insert(id.clone());
        }
    }

    /// Moves the task of a known sandbox to a state the engine has chosen.
    pub(crate) fn enter_task_state(&mut self, id: &SandboxId, to: TaskState, error: Option<String>) {
        let now = self.now();
        let Some(task) = self.task_of(id) else { return };
        let from = std::mem::replace(&mut task.status, to);
        match to {
            TaskState::Running => task.started_at = task.started_at.or(Some(now)),
            TaskState::Pending => {
                task.completed_at = None;
                task.error_message = None;
                task.outcome = None;
                task.sandbox_id = None;
            }
            to if to.is_terminal() => task.completed_at = Some(now),
            _ => {}
        }
        if matches!(to, TaskState::Failed | TaskState::Cancelled) && error.is_some() {
            task.error_message = error;
        }
        let task = task.clone();
        self.task_changed(&task);
        self.announce_task(&task, Some(from));
    }

    /// Marks a task to be written at the next flush.
    pub(crate) fn task_changed(&mut self, task: &Task) {
        let now = self.now();
        let loaded = self.state.tasks.get_mut(&task.id).expect("asked for earlier in this transaction");
        loaded.row = task.clone();
        loaded.row.updated_at = now;
        loaded.changed = true;
    }

    /// Sets a ticket's branch or status.
    pub(crate) async fn touch_ticket(
        &mut self,
        task: &Task,
        branch_name: Option<&str>,
        status: Option<TicketStatus>,
    ) -> Result<(), Fault> {
        let (now, ticket) = (self.now().as_microsecond(), task.ticket_id.as_str());
        let status = status.map(TicketStatus::as_str);
        sqlx::query!(
            "UPDATE tickets SET branch_name = coalesce($2, branch_name), status = coalesce($3, status),
                                updated_at = $4
             WHERE id = $1",
            ticket,
            branch_name,
            status,
            now
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    fn announce_sandbox(&mut self, id: &SandboxId, event_type: &str) {
        let row = self.sandbox(id).row.clone();
        self.publish(Notice {
            project_id: row.project_id.as_ref(),
            event_type,
            entity_type: "sandbox",
            entity_id: id.as_str(),
            sandbox_id: Some(id),
            payload: json!({
                "sandbox_id": row.id, "task_id": row.task_id, "project_id": row.project_id,
                "attempt": row.attempt, "provider": row.provider, "runtime": row.runtime,
                "state": row.state, "reason": row.reason,
            }),
        });
    }

    /// Publishes a task's new state, under its general and its own name.
    pub(crate) fn announce_task(&mut self, task: &Task, old: Option<TaskState>) {
        let own = match task.status {
            TaskState::Pending if old.is_none() => Some("TASK_CREATED"),
            TaskState::Pending => Some("TASK_RETRY_SCHEDULED"),
            TaskState::Assigned => Some("TASK_ASSIGNED"),
            TaskState::Running => Some("TASK_STARTED"),
            TaskState::Validating => Some("TASK_VALIDATION_REQUESTED"),
            TaskState::Completed => Some("TASK_COMPLETED"),
            TaskState::Failed => Some("TASK_FAILED"),
            TaskState::Cancelled => Some("TASK_CANCELLED"),
            TaskState::Claiming
            | TaskState::NeedsRevision
            | TaskState::WaitingInput
            | TaskState::WaitingQuota => None,
        };
        let general = old.is_some().then_some("TASK_STATUS_CHANGED");
        for event_type in own.into_iter().chain(general) {
            self.publish(Notice {
                project_id: Some(&task.project_id),
                event_type,
                entity_type: "task",
                entity_id: task.id.as_str(),
                sandbox_id: task.sandbox_id.as_ref(),
                payload: json!({
                    "task_id": task.id, "ticket_id": task.ticket_id, "phase_id": task.phase_id,
                    "task_type": task.task_type, "status": task.status, "priority": task.priority,
                    "old_status": old, "error_message": task.error_message,
                    "has_result": task.result.is_some(), "attempt": task.attempt,
                    "sandbox_id": task.sandbox_id,
                }),
            });
        }
    }

    /// A sandbox's task, for a step that only its present attempt may take.
    pub(crate) fn current_task(&mut self, id: &SandboxId) -> Result<Task, Fault> {
        if self.sandbox(id).row.task_id.is_none() {
            return Err(Error::not_found("task of sandbox", id).into());
        }
        self.task_of(id).map(|task| task.clone()).ok_or_else(|| {
            let detail = format!("a later attempt has taken the place of sandbox {id}");
            Error::conflict("attempt_superseded", detail).into()
        })
    }
}
