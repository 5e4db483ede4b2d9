//! Which node holds a sandbox, and what becomes of it when that node is lost.

use sunaba_engine::{SandboxTrigger, TaskTrigger, next_sandbox_state, next_task_state};
use sunaba_store::{NewSandbox, Result};
use sunaba_types::{NodeId, Sandbox, SandboxId, SandboxState, TaskState, Terms};

use super::{Draft, EXTERNAL};

impl Draft {
    /// Gives a pending sandbox that nobody holds to a node; the sandbox is known.
    pub fn claim_sandbox(&mut self, id: &SandboxId, node: &NodeId) -> Result<Option<Sandbox>> {
        let loaded = self.get_sandbox(id)?;
        let row = &mut loaded.row;
        if row.node_id.is_some() || row.state != SandboxState::Pending || row.provider == EXTERNAL {
            return Ok(None);
        }
        row.node_id = Some(node.clone());
        loaded.row_changed = true;
        Ok(Some(loaded.row.clone()))
    }

    /// Gives every known sandbox that somebody has begun to bring up, and nobody holds, to a node.
    pub fn take_over_begun(&mut self, node: &NodeId) {
        for loaded in self.sandboxes.values_mut() {
            let row = &mut loaded.row;
            let begun = row.state != SandboxState::Pending && !row.state.is_terminal();
            if begun && row.provider != EXTERNAL && row.node_id.is_none() {
                row.node_id = Some(node.clone());
            }
        }
    }

    /// Fails a sandbox whose node is lost, with its task. Gives the sandbox that is to take its place, if the
    /// task may be tried again: then the task is pending.
    pub fn fail_lost_sandbox(
        &mut self,
        id: &SandboxId,
        reason: &str,
        most_attempts: i64,
    ) -> Result<Option<NewSandbox>> {
        let row = self.get_sandbox(id)?.row.clone();
        let Ok(failed) = next_sandbox_state(row.state, SandboxTrigger::Fail) else { return Ok(None) };
        self.enter_sandbox_state(id, failed, Some(reason.to_owned()));
        let Some(status) = self.task_of(id).map(|task| task.status) else { return Ok(None) };
        let Ok(failed) = next_task_state(status, TaskTrigger::Fail) else { return Ok(None) };
        self.enter_task_state(id, failed, Some(reason.to_owned()));
        if row.attempt >= most_attempts {
            return Ok(None);
        }
        let again = next_task_state(TaskState::Failed, TaskTrigger::Retry)?;
        self.enter_task_state(id, again, None);
        Ok(Some(NewSandbox {
            project_id: row.project_id,
            task_id: row.task_id,
            provider: row.provider,
            runtime: row.runtime,
            model: row.model,
            prompt: row.prompt,
            resources: row.resources,
            // What it may reach is decided where it is brought up.
            terms: Terms { egress: None, ..row.terms },
        }))
    }
}
