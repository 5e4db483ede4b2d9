//! Sandboxes: making, changing, listing.

use async_trait::async_trait;
use sunaba_store::{HeldBy, NewSandbox, Result, SandboxChange, SandboxFilter};
use sunaba_types::{ProjectId, Sandbox, SandboxId, TaskId, Timestamp};

use super::visible_list;
use crate::SqliteStore;
use crate::fault::{Fault, told};
use crate::rows::{all, list, sandbox_query};
use crate::unit::Unit;
use crate::writer::Command;

pub(super) struct CreateSandbox(pub(super) NewSandbox);

#[async_trait]
impl Command<Unit> for CreateSandbox {
    type Output = Sandbox;

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

    async fn run(&self, unit: &mut Unit) -> Result<Sandbox, Fault> {
        unit.find_sandbox(&self.id).await?;
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

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        for (id, at) in &self.0 {
            if let Some(loaded) = unit.find_sandbox(id).await? {
                loaded.heard(*at);
            }
        }
        Ok(())
    }
}

impl SqliteStore {
    pub(super) async fn read_sandboxes(&self, filter: SandboxFilter) -> Result<Vec<Sandbox>> {
        if let Some(held_by) = &filter.held_by {
            return self.read_held(held_by, &filter).await;
        }
        let states =
            (!filter.states.is_empty()).then(|| list(filter.states.iter().map(|state| state.as_str())));
        let project = filter.project_id.as_ref().map(ProjectId::as_str);
        let visible = visible_list(filter.visible_projects.as_deref());
        let task = filter.task_id.as_ref().map(TaskId::as_str);
        let before = filter.before.as_ref().map(SandboxId::as_str);
        let provider = filter.provider.as_deref();
        let rows = if states.is_some() && provider.is_some() {
            // What runs now is looked for often and is little among all that ever ran: found by its own index.
            sandbox_query!(
                "WHERE s.state IN (SELECT value FROM json_each(?1)) AND s.provider = ?7
                   AND (?2 IS NULL OR s.project_id = ?2)
                   AND (?3 IS NULL OR s.project_id IN (SELECT value FROM json_each(?3)))
                   AND (?4 IS NULL OR s.task_id = ?4)
                   AND (?5 IS NULL
                        OR (s.created_at, s.id) < (SELECT b.created_at, b.id FROM sandboxes AS b WHERE b.id = ?5))
                 ORDER BY s.created_at DESC, s.id DESC LIMIT ?6",
                states,
                project,
                visible,
                task,
                before,
                filter.limit,
                provider
            )
            .fetch_all(&self.readers)
            .await
        } else {
            sandbox_query!(
                "WHERE (?1 IS NULL OR s.state IN (SELECT value FROM json_each(?1)))
                   AND (?2 IS NULL OR s.project_id = ?2)
                   AND (?3 IS NULL OR s.project_id IN (SELECT value FROM json_each(?3)))
                   AND (?4 IS NULL OR s.task_id = ?4)
                   AND (?5 IS NULL
                        OR (s.created_at, s.id) < (SELECT b.created_at, b.id FROM sandboxes AS b WHERE b.id = ?5))
                   AND (?7 IS NULL OR s.provider = ?7)
                 ORDER BY s.created_at DESC, s.id DESC LIMIT ?6",
                states,
                project,
                visible,
                task,
                before,
                filter.limit,
                provider
            )
            .fetch_all(&self.readers)
            .await
        };
        Ok(all(rows.map_err(told)?)?)
    }

    /// What a node holds now is little among all that ever ran, and so is what waits: each found by its own index.
    async fn read_held(&self, held_by: &HeldBy, filter: &SandboxFilter) -> Result<Vec<Sandbox>> {
        let states =
            (!filter.states.is_empty()).then(|| list(filter.states.iter().map(|state| state.as_str())));
        let provider = filter.provider.as_deref();
        let rows = match held_by {
            HeldBy::Node(node) => {
                let node = node.as_str();
                sandbox_query!(
                    "WHERE s.node_id = ?1 AND (?2 IS NULL OR s.state IN (SELECT value FROM json_each(?2)))
                       AND (?3 IS NULL OR s.provider = ?3)
                     ORDER BY s.created_at DESC, s.id DESC LIMIT ?4",
                    node,
                    states,
                    provider,
                    filter.limit
                )
                .fetch_all(&self.readers)
                .await
            }
            HeldBy::Nobody => {
                sandbox_query!(
                    "WHERE s.node_id IS NULL AND s.state = 'pending' AND (?1 IS NULL OR s.provider = ?1)
                     ORDER BY s.created_at, s.id LIMIT ?2",
                    provider,
                    filter.limit
                )
                .fetch_all(&self.readers)
                .await
            }
        };
        Ok(all(rows.map_err(told)?)?)
    }
}
