//! Sandboxes: making, changing, listing.

use async_trait::async_trait;
use sunaba_engine::{TaskTrigger, next_sandbox_state, next_task_state};
use sunaba_store::{Error, NewSandbox, Result, SandboxChange, SandboxFilter};
use sunaba_types::{
    Outcome, ProjectId, Sandbox, SandboxId, SandboxState, Task, TaskId, TaskState, TicketStatus, Timestamp,
};

use super::visible_list;
use crate::PostgresStore;
use crate::fault::Fault;
use crate::page::InTime as _;
use crate::rows::{all, list, sandbox_query};
use crate::unit::{EXTERNAL, Needs, Unit};
use crate::writer::Command;

pub(super) struct CreateSandbox(pub(super) NewSandbox);

#[async_trait]
impl Command for CreateSandbox {
    type Output = Sandbox;

    fn needs(&self, needs: &mut Needs) {
        self.0.task_id.iter().for_each(|id| needs.task(id));
    }

    async fn run(&self, unit: &mut Unit) -> Result<Sandbox, Fault> {
        let new = &self.0;
        let id = SandboxId::generate();
        let now = unit.now();
        let task = match &new.task_id {
            Some(task_id) => Some(claim(unit, task_id, &id)?),
            None => None,
        };
        let project_id = match &task {
            Some((task, _)) => Some(task.project_id.clone()),
            None => new.project_id.clone(),
        };
        if let Some(project_id) = &project_id {
            let key = project_id.as_str();
            let held = sqlx::query_scalar!("SELECT id FROM projects WHERE id = $1", key)
                .fetch_optional(unit.sql())
                .await?;
            held.ok_or_else(|| Error::not_found("project", project_id))?;
        }
        let row = Sandbox {
            id: id.clone(),
            project_id,
            task_id: new.task_id.clone(),
            attempt: task.as_ref().map_or(1, |(task, _)| task.attempt),
            provider: new.provider.clone(),
            provider_ref: None,
            // Nobody brings up what is somewhere else: it is there as soon as it is known.
            state: if new.provider == EXTERNAL { SandboxState::Running } else { SandboxState::Pending },
            state_entered_at: now,
            reason: None,
            runtime: new.runtime.clone(),
            model: new.model.clone(),
            prompt: new.prompt.clone(),
            branch_name: None,
            base_commit: None,
            head_commit: None,
            isolation: None,
            resources: new.resources,
            terms: new.terms.clone(),
            exit: None,
            cost_micros: 0,
            alive_until: None,
            created_at: now,
            ended_at: None,
        };
        unit.insert_sandbox(row.clone()).await?;
        if let Some((task, before)) = task {
            unit.task_changed(&task);
            unit.announce_task(&task, Some(before));
            unit.touch_ticket(&task, None, Some(TicketStatus::InProgress)).await?;
        }
        Ok(row)
    }
}

/// The task as it will be with this sandbox, and the state it was in. Changes nothing yet.
fn claim(unit: &mut Unit, task_id: &TaskId, sandbox: &SandboxId) -> Result<(Task, TaskState), Fault> {
    let found = unit.find_task(task_id);
    let mut task = found.ok_or_else(|| Error::not_found("task", task_id))?.clone();
    let before = task.status;
    let not_ready = |_| Error::conflict("task_not_ready", format!("task {task_id} is {before}, not pending"));
    let claimed = next_task_state(before, TaskTrigger::Claim).map_err(not_ready)?;
    task.status = next_task_state(claimed, TaskTrigger::Assign)?;
    task.attempt += 1;
    task.sandbox_id = Some(sandbox.clone());
    Ok((task, before))
}

pub(super) struct ChangeSandbox {
    pub(super) id: SandboxId,
    pub(super) change: SandboxChange,
}

#[async_trait]
impl Command for ChangeSandbox {
    type Output = Sandbox;

    fn needs(&self, needs: &mut Needs) {
        needs.sandbox(&self.id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<Sandbox, Fault> {
        let (id, change) = (&self.id, &self.change);
        let state = unit.get_sandbox(id)?.row.state;
        // Everything is decided before anything is changed.
        let to = change.trigger.map(|trigger| next_sandbox_state(state, trigger)).transpose()?;
        let task_to = match change.task_trigger {
            Some(trigger) => Some(next_task_state(unit.current_task(id)?.status, trigger)?),
            None => None,
        };
        if let Some(to) = to {
            unit.enter_sandbox_state(id, to, change.reason.clone());
        }
        self.set_fields(unit)?;
        self.set_result(unit, task_to).await?;
        Ok(unit.get_sandbox(id)?.row.clone())
    }
}

impl ChangeSandbox {
    fn set_fields(&self, unit: &mut Unit) -> Result<(), Fault> {
        let change = &self.change;
        let loaded = unit.get_sandbox(&self.id)?;
        let row = &mut loaded.row;
        let fields = [
            (&mut row.reason, &change.reason),
            (&mut row.provider_ref, &change.provider_ref),
            (&mut row.isolation, &change.isolation),
            (&mut row.branch_name, &change.branch_name),
            (&mut row.base_commit, &change.base_commit),
            (&mut row.head_commit, &change.head_commit),
        ];
        let mut changed = false;
        for (held, new) in fields {
            if new.is_some() && held != new {
                held.clone_from(new);
                changed = true;
            }
        }
        if change.egress.is_some() && row.terms.egress != change.egress {
            row.terms.egress.clone_from(&change.egress);
            changed = true;
        }
        if change.exit.is_some() && row.exit != change.exit {
            row.exit.clone_from(&change.exit);
            changed = true;
        }
        if changed {
            loaded.mark_changed();
        }
        Ok(())
    }

    /// The task's part: what was produced, then the step.
    async fn set_result(&self, unit: &mut Unit, to: Option<TaskState>) -> Result<(), Fault> {
        let change = &self.change;
        let Some(mut task) = unit.task_of(&self.id).map(|task| task.clone()) else { return Ok(()) };
        if change.outcome.is_some() || change.result.is_some() {
            task.outcome = change.outcome.or(task.outcome);
            task.result = change.result.clone().or(task.result);
            unit.task_changed(&task);
        }
        if let Some(to) = to {
            unit.enter_task_state(&self.id, to, change.reason.clone());
        }
        let status = match (to, task.outcome) {
            (Some(TaskState::Completed), Some(Outcome::NoChanges)) => Some(TicketStatus::Done),
            (Some(TaskState::Completed), _) => Some(TicketStatus::InReview),
            _ => None,
        };
        if change.branch_name.is_some() || status.is_some() {
            unit.touch_ticket(&task, change.branch_name.as_deref(), status).await?;
        }
        Ok(())
    }
}

pub(super) struct Touch(pub(super) Vec<(SandboxId, Timestamp)>);

#[async_trait]
impl Command for Touch {
    type Output = ();

    fn needs(&self, needs: &mut Needs) {
        self.0.iter().for_each(|(id, _)| needs.sandbox(id));
    }

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        for (id, at) in &self.0 {
            if let Some(loaded) = unit.find_sandbox(id) {
                loaded.heard(*at);
            }
        }
        Ok(())
    }
}

impl PostgresStore {
    pub(super) async fn read_sandboxes(&self, filter: SandboxFilter) -> Result<Vec<Sandbox>> {
        let states: Option<Vec<String>> =
            (!filter.states.is_empty()).then(|| list(filter.states.iter().map(|state| state.as_str())));
        let visible = visible_list(filter.visible_projects.as_deref());
        let rows = sandbox_query!(
            "WHERE ($1::text[] IS NULL OR s.state = ANY($1))
               AND ($2::text IS NULL OR s.project_id = $2)
               AND ($3::text[] IS NULL OR s.project_id = ANY($3))
               AND ($4::text IS NULL OR s.task_id = $4)
               AND ($5::text IS NULL
                    OR (s.created_at, s.id) < (SELECT b.created_at, b.id FROM sandboxes AS b WHERE b.id = $5))
               AND ($7::text IS NULL OR s.provider = $7)
             ORDER BY s.created_at DESC, s.id DESC LIMIT $6",
            states.as_deref(),
            filter.project_id.as_ref().map(ProjectId::as_str),
            visible.as_deref(),
            filter.task_id.as_ref().map(TaskId::as_str),
            filter.before.as_ref().map(SandboxId::as_str),
            i64::from(filter.limit),
            filter.provider.as_deref()
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        Ok(all(rows)?)
    }
}
