//! From "the agent says it is done" to a recorded result.
//!
//! What the worker reports decides nothing here: the result is what the server
//! itself finds in the mirror, where only pushes that the gateway let through arrive.

use serde_json::json;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_git::{Mirror, publish_branch};
use sunaba_store::{EventQuery, SandboxChange};
use sunaba_types::{Outcome, Project, Sandbox};

use crate::patience::patiently;
use crate::{Error, Parts};

/// Publishes the branch and completes sandbox and task in one step.
pub(crate) async fn record_result(parts: &Parts, sandbox: &Sandbox) -> Result<(), Error> {
    let missing = |what: &str| Error::Missing(format!("the finished sandbox has no {what}"));
    let project_id = sandbox.project_id.as_ref().ok_or_else(|| missing("project"))?;
    let branch = sandbox.branch_name.as_deref().ok_or_else(|| missing("branch"))?;
    let base = sandbox.base_commit.as_deref().ok_or_else(|| missing("base commit"))?;
    let project =
        patiently(|| parts.store.find_project(project_id)).await?.ok_or_else(|| missing("project"))?;

    let deadline = parts.settings.completing_deadline;
    let (outcome, head) = tokio::time::timeout(deadline, publish(parts, sandbox, &project, branch, base))
        .await
        .map_err(|_| Error::TooSlow { what: "publishing the branch", seconds: deadline.as_secs() })??;
    if outcome == Outcome::NoChanges {
        refuse_lost_work(parts, sandbox).await?;
    }

    let change = SandboxChange {
        trigger: Some(SandboxTrigger::ResultRecorded),
        task_trigger: Some(TaskTrigger::ResultRecorded),
        head_commit: Some(head.clone()),
        outcome: Some(outcome),
        result: Some(json!({ "branch_name": branch, "base_commit": base, "head_commit": head })),
        ..SandboxChange::default()
    };
    patiently(|| parts.store.change_sandbox(&sandbox.id, change.clone())).await?;
    Ok(())
}

/// Finds what arrived in the mirror and writes it to the user's repository.
async fn publish(
    parts: &Parts,
    sandbox: &Sandbox,
    project: &Project,
    branch: &str,
    base: &str,
) -> Result<(Outcome, String), Error> {
    // Under the lock that pushes take too: whoever takes this attempt's place waits until it is published.
    let _guard = parts.git_locks.lock_within(project.id.as_str(), parts.settings.git_patience).await?;
    refuse_superseded(parts, sandbox).await?;
    let mirror = Mirror::open(parts.mirror_path(&project.id))?;
    let head = mirror.branch_commit(branch).await?.unwrap_or_else(|| base.to_owned());
    if head == base {
        return Ok((Outcome::NoChanges, head));
    }
    if let Some(path) = &project.repo_path {
        publish_branch(&mirror, path.as_ref(), branch).await.map_err(|error| {
            Error::Missing(format!(
                "the work is on branch {branch} of the server's mirror {}, but it could not be written to {path}: {error}",
                mirror.dir().display()
            ))
        })?;
    }
    Ok((Outcome::Branch, head))
}

/// A later attempt owns the branch: what an earlier one left must not be published in its name.
async fn refuse_superseded(parts: &Parts, sandbox: &Sandbox) -> Result<(), Error> {
    let Some(task_id) = &sandbox.task_id else { return Ok(()) };
    let task = patiently(|| parts.store.find_task(task_id)).await?;
    match task {
        Some(task) if task.attempt == sandbox.attempt => Ok(()),
        _ => Err(Error::Missing(
            "attempt_superseded: a later attempt has taken this one's place; nothing was published"
                .to_owned(),
        )),
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
    async fn a_superseded_attempt_publishes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let parts = parts(dir.path()).await;
        let present = sandbox(&parts).await;
        refuse_superseded(&parts, &present).await.unwrap();
        let mut past = present.clone();
        past.attempt -= 1;
        past.branch_name = Some("feature/1-x".into());
        past.base_commit = Some("0".repeat(40));
        let refused = record_result(&parts, &past).await.unwrap_err().to_string();
        assert!(refused.contains("attempt_superseded"), "{refused}");
    }
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
