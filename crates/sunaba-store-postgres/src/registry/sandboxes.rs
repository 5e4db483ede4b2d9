//! Sandboxes: making, changing, listing.

use async_trait::async_trait;
use sunaba_store::{HeldBy, NewSandbox, Result, SandboxChange, SandboxFilter};
use sunaba_types::{ProjectId, Sandbox, SandboxId, TaskId, Timestamp};

use super::visible_list;
use crate::PostgresStore;
use crate::fault::Fault;
use crate::page::InTime as _;
use crate::rows::{all, list, sandbox_query};
use crate::unit::{Needs, Unit};
use crate::writer::Command;

pub(super) struct CreateSandbox(pub(super) NewSandbox);

#[async_trait]
impl Command<Unit> for CreateSandbox {
    type Output = Sandbox;

    fn needs(&self, needs: &mut Needs) {
        self.0.task_id.iter().for_each(|id| needs.task(id));
        if let Some(resume) = &self.0.terms.resume {
            needs.name("session", &resume.session_id);
        }
    }

    async fn run(&self, unit: &mut Unit) -> Result<Sandbox, Fault> {
        unit.refuse_second_holder(&self.0).await?;
        unit.make_sandbox(&self.0).await
    }
}

pub(super) struct ChangeSandbox {
    pub(super) id: SandboxId,
    pub(super) change: SandboxChange,
}

#[async_trait]
impl Command<Unit> for ChangeSandbox {
    type Output = Sandbox;

    fn needs(&self, needs: &mut Needs) {
        needs.sandbox(&self.id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<Sandbox, Fault> {
        if let Some(touch) = unit.draft.change_sandbox(&self.id, &self.change)? {
            unit.touch_ticket(&touch).await?;
        }
        if self.change.completes() {
            unit.go_on_with_the_unread(&self.id).await?;
        }
        Ok(unit.draft.get_sandbox(&self.id)?.row.clone())
    }
}

pub(super) struct Touch(pub(super) Vec<(SandboxId, Timestamp)>);

#[async_trait]
impl Command<Unit> for Touch {
    type Output = ();

    fn needs(&self, needs: &mut Needs) {
        self.0.iter().for_each(|(id, _)| needs.sandbox(id));
    }

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        for (id, at) in &self.0 {
            if let Some(loaded) = unit.draft.find_sandbox(id) {
                loaded.heard(*at);
            }
        }
        Ok(())
    }
}

impl PostgresStore {
    pub(super) async fn read_sandboxes(&self, filter: SandboxFilter) -> Result<Vec<Sandbox>> {
        if let Some(held_by) = &filter.held_by {
            return self.read_held(held_by, &filter).await;
        }
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

    /// What a node holds now is little among all that ever ran, and so is what waits: each found by its own index.
    async fn read_held(&self, held_by: &HeldBy, filter: &SandboxFilter) -> Result<Vec<Sandbox>> {
        let states: Option<Vec<String>> =
            (!filter.states.is_empty()).then(|| list(filter.states.iter().map(|state| state.as_str())));
        let (provider, limit) = (filter.provider.as_deref(), i64::from(filter.limit));
        let rows = match held_by {
            HeldBy::Node(node) => {
                sandbox_query!(
                    "WHERE s.node_id = $1 AND ($2::text[] IS NULL OR s.state = ANY($2))
                       AND ($3::text IS NULL OR s.provider = $3)
                     ORDER BY s.created_at DESC, s.id DESC LIMIT $4",
                    node.as_str(),
                    states.as_deref(),
                    provider,
                    limit
                )
                .fetch_all(&self.readers)
                .in_time()
                .await?
            }
            HeldBy::Nobody => {
                sandbox_query!(
                    "WHERE s.node_id IS NULL AND s.state = 'pending' AND ($1::text IS NULL OR s.provider = $1)
                     ORDER BY s.created_at, s.id LIMIT $2",
                    provider,
                    limit
                )
                .fetch_all(&self.readers)
                .in_time()
                .await?
            }
        };
        Ok(all(rows)?)
    }
}
