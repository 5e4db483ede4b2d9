//! From "the agent says it is done" to a recorded result.
//!
//! What the worker reports decides nothing here: the result is what the server
//! itself finds in the mirror, where only pushes that the gateway let through arrive.

use serde_json::json;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_nodes::Where;
use sunaba_nodes::wire::Published;
use sunaba_store::{EventQuery, SandboxChange};
use sunaba_types::{Outcome, ProjectId, Sandbox, TaskState};

use crate::patience::patiently;
use crate::record::record;
use crate::{Error, Parts};

/// Publishes the branch and completes sandbox and task in one step.
pub(crate) async fn record_result(parts: &Parts, sandbox: &Sandbox) -> Result<(), Error> {
    let mut change = match is_recorded(parts, sandbox).await? {
        true => SandboxChange::default(),
        false => result(parts, sandbox).await?,
    };
    change.trigger = Some(SandboxTrigger::ResultRecorded);
    patiently(|| parts.store.change_sandbox(&sandbox.id, change.clone())).await?;
    Ok(())
}

/// Publishes the branch and completes the task, while the sandbox waits for a follow-up. One that has come meanwhile
/// leaves it to the next time.
pub(crate) async fn record_early(parts: &Parts, sandbox: &Sandbox) -> Result<(), Error> {
    if is_recorded(parts, sandbox).await? {
        return Ok(());
    }
    let mut change = result(parts, sandbox).await?;
    change.only_since = Some(sandbox.state_entered_at);
    match patiently(|| parts.store.change_sandbox(&sandbox.id, change.clone())).await {
        Ok(_) => {
            let told = json!({
                "outcome": change.outcome, "result": change.result,
                "follow_up_seconds": parts.settings.follow_up_of(sandbox).as_secs(),
            });
            record(parts, &sandbox.id, "sandbox.result", &told).await;
            Ok(())
        }
        Err(sunaba_store::Error::Conflict { code: "sandbox_moved_on", .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether the task has the result of this attempt already.
async fn is_recorded(parts: &Parts, sandbox: &Sandbox) -> Result<bool, Error> {
    let Some(task) = &sandbox.task_id else { return Ok(false) };
    let task = patiently(|| parts.store.find_task(task)).await?;
    Ok(task.is_some_and(|task| task.status == TaskState::Completed && task.attempt == sandbox.attempt))
}

/// Publishes the branch; what is then to be recorded.
async fn result(parts: &Parts, sandbox: &Sandbox) -> Result<SandboxChange, Error> {
    let missing = |what: &str| Error::Missing(format!("the finished sandbox has no {what}"));
    let project = sandbox.project_id.as_ref().ok_or_else(|| missing("project"))?;
    let Published { outcome, head } = publish(parts, sandbox, project).await?;
    if outcome == Outcome::NoChanges {
        refuse_lost_work(parts, sandbox).await?;
    }
    let result = json!({
        "branch_name": sandbox.branch_name, "base_commit": sandbox.base_commit, "head_commit": head
    });
    Ok(SandboxChange {
        task_trigger: Some(TaskTrigger::ResultRecorded),
        head_commit: Some(head),
        outcome: Some(outcome),
        result: Some(result),
        ..SandboxChange::default()
    })
}

/// Has the project's home publish what arrived there. A home that is away for a moment is waited for; the work
/// itself has a deadline.
async fn publish(parts: &Parts, sandbox: &Sandbox, project: &ProjectId) -> Result<Published, Error> {
    let (patience, deadline) = (parts.settings.git_patience, parts.settings.completing_deadline);
    let home = parts.nodes.patiently(patience, || parts.nodes.home_of(project)).await?;
    match home {
        Where::Here => tokio::time::timeout(deadline, parts.home.publish(&sandbox.id))
            .await
            .map_err(|_| Error::TooSlow { what: "publishing the branch", seconds: deadline.as_secs() })?,
        Where::There(node) => {
            let path = format!("/sandboxes/{}/publish", sandbox.id);
            let ask = || parts.nodes.post(&node, &path, &(), deadline);
            Ok(parts.nodes.patiently(patience, ask).await?)
        }
    }
}

/// A worker that says it committed, while nothing arrived, must not look like "no changes".
async fn refuse_lost_work(parts: &Parts, sandbox: &Sandbox) -> Result<(), Error> {
    let mut query = EventQuery::newest(sandbox.id.clone(), 1);
    query.event_types = vec!["agent.completed".to_owned()];
    let page = patiently(|| parts.store.list_events(query.clone())).await?;
    let committed =
        page.events.first().and_then(|event| event.payload.field::<bool>("code_committed")).unwrap_or(false);
    if committed {
        return Err(Error::Missing("the agent's commits were never pushed".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{parts, sandbox};

    #[tokio::test]
    async fn a_sandbox_ends_also_when_its_task_is_over_or_anothers() {
        let dir = tempfile::tempdir().unwrap();
        let parts = parts(dir.path()).await;
        let present = sandbox(&parts).await;
        let over = SandboxChange { task_trigger: Some(TaskTrigger::Cancel), ..SandboxChange::default() };
        parts.store.change_sandbox(&present.id, over).await.unwrap();
        crate::driver::fail(&parts, &present.id, "its process vanished").await;
        let row = parts.store.find_sandbox(&present.id).await.unwrap().unwrap();
        assert_eq!(row.state, sunaba_types::SandboxState::Failed);
        assert_eq!(row.reason.as_deref(), Some("its process vanished"));
    }
}
