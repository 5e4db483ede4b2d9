//! How work goes on after its sandbox: in another one, when it died or when its task has what it waited for.

use sunaba_engine::SandboxTrigger;
use sunaba_store::SandboxChange;
use sunaba_types::{Sandbox, SandboxId, SandboxState};

use crate::patience::patiently;
use crate::{Error, Parts, driver};

/// Most tasks that are woken up in one look.
const WAKE_MAX: u32 = 50;

/// Fails a sandbox that died; its task goes on in another one, with the conversation that was kept, unless too many
/// died in a row.
pub(crate) async fn replace(parts: &Parts, id: &SandboxId, reason: &str) {
    let most = parts.settings.most_deaths;
    match patiently(|| parts.store.replace_died_sandbox(id, reason, most)).await {
        Ok(Some(next)) => {
            tracing::warn!(sandbox = %id, next = %next.id, reason, "a sandbox died; its task is tried again");
        }
        Ok(None) => tracing::warn!(sandbox = %id, reason, "the sandbox failed"),
        Err(error) => {
            tracing::error!(sandbox = %id, %error, "a sandbox that died could not be replaced");
            driver::fail(parts, id, reason).await;
        }
    }
}

/// Ends the row of a sandbox that gave its place up.
pub(crate) async fn suspended(parts: &Parts, sandbox: &Sandbox) -> Result<(), Error> {
    let change = SandboxChange {
        trigger: Some(SandboxTrigger::Suspend),
        reason: sandbox.terms.suspended.clone(),
        ..SandboxChange::default()
    };
    match patiently(|| parts.store.change_sandbox(&sandbox.id, change.clone())).await {
        // Its last words ended it already.
        Ok(_) | Err(sunaba_store::Error::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Ends the row of a sandbox that cannot go on, if it was to be suspended in any case. Whether it was.
pub(crate) async fn was_to_be_suspended(parts: &Parts, id: &SandboxId) -> bool {
    match patiently(|| parts.store.find_sandbox(id)).await {
        Ok(Some(row)) if row.terms.suspended.is_some() && row.state != SandboxState::Completing => {
            suspended(parts, &row).await.is_ok()
        }
        _ => false,
    }
}

/// Starts again what has what it waited for. Any node may; each is taken up once. Whether all went well.
pub(crate) async fn wake(parts: &Parts) -> bool {
    let due = match parts.store.due_waits(WAKE_MAX).await {
        Ok(due) => due,
        Err(error) => {
            tracing::warn!(%error, "cannot read what waits; looking again");
            return false;
        }
    };
    let mut went_well = true;
    for id in due {
        match parts.store.wake(&id).await {
            Ok(Some(next)) => tracing::info!(sandbox = %id, next = %next.id, "a task goes on"),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(sandbox = %id, %error, "a task could not go on; trying again");
                went_well = false;
            }
        }
    }
    went_well
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sunaba_store::{Append, Suspension, Waits, Writer};
    use sunaba_types::{Decision, EventPayload, NewAnswer, NewEvent, NewQuestion, Source, Task, TaskState};

    use super::*;
    use crate::made;

    /// A sandbox that runs, and what its agent told last.
    async fn running(parts: &Parts, last: Option<(&str, serde_json::Value)>) -> Sandbox {
        let sandbox = made::sandbox(parts).await;
        let create = SandboxChange { trigger: Some(SandboxTrigger::Create), ..SandboxChange::default() };
        parts.store.change_sandbox(&sandbox.id, create).await.unwrap();
        for (event_type, data) in [("agent.started", json!({}))].into_iter().chain(last) {
            let event = NewEvent {
                event_id: sunaba_types::new_event_id(),
                event_type: event_type.to_owned(),
                source: Source::Agent,
                payload: EventPayload::from_value(&data).unwrap(),
                step: None,
            };
            let writer = Writer::Sandbox { attempt: sandbox.attempt };
            let append = Append { sandbox_id: sandbox.id.clone(), writer, events: vec![event] };
            parts.store.append(append).await.unwrap().remove(0).unwrap();
        }
        sandbox
    }

    async fn task_of(parts: &Parts, sandbox: &Sandbox) -> Task {
        parts.store.find_task(sandbox.task_id.as_ref().unwrap()).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn an_agent_that_crashed_is_tried_again_and_one_that_gave_up_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let parts = made::parts(dir.path()).await;
        for (class, again) in [("crashed", true), ("auth", false)] {
            let failed = json!({"error": "it ended", "error_class": class});
            let sandbox = running(&parts, Some(("agent.failed", failed))).await;
            // A server that dies here finds the row as it is now.
            let row = parts.store.find_sandbox(&sandbox.id).await.unwrap().unwrap();
            assert_eq!(
                (row.state == SandboxState::Running, row.terms.crashed.is_some()),
                (again, again),
                "{class}"
            );
            replace(&parts, &sandbox.id, "its sandbox is gone").await;
            let (task, row) = (task_of(&parts, &sandbox).await, parts.store.find_sandbox(&sandbox.id).await);
            assert_eq!(row.unwrap().unwrap().reason.as_deref(), Some("it ended"), "{class}");
            let expected = if again { (TaskState::Assigned, 2) } else { (TaskState::Failed, 1) };
            assert_eq!((task.status, task.attempt), expected, "{class}");
        }
    }

    #[tokio::test]
    async fn what_was_to_be_suspended_does_not_fail_and_is_woken_up() {
        let dir = tempfile::tempdir().unwrap();
        let parts = made::parts(dir.path()).await;
        let sandbox = running(&parts, None).await;
        let asked = NewQuestion {
            sandbox_id: sandbox.id.clone(),
            client_id: "a".to_owned(),
            tool: "Bash".to_owned(),
            tool_use_id: "t".to_owned(),
            input: json!({"command": "make"}),
        };
        let asked = parts.store.ask_question(Writer::Operator, asked).await.unwrap();
        let suspension = Suspension { waits: Waits::Input, reason: "it asks".to_owned() };
        parts.store.suspend(&sandbox.id, suspension).await.unwrap();
        driver::fail(&parts, &sandbox.id, "its sandbox is gone").await;
        let row = parts.store.find_sandbox(&sandbox.id).await.unwrap().unwrap();
        assert_eq!((row.state, row.reason.as_deref()), (SandboxState::Completed, Some("it asks")));
        assert!(wake(&parts).await);
        assert_eq!(task_of(&parts, &sandbox).await.status, TaskState::WaitingInput, "nobody has answered");
        let answer = NewAnswer {
            decision: Decision::Allow,
            updated_input: None,
            message: None,
            remember: None,
            answered_by: "somebody".to_owned(),
        };
        parts.store.answer_question(&asked.id, answer).await.unwrap();
        assert!(wake(&parts).await);
        let task = task_of(&parts, &sandbox).await;
        assert_eq!((task.status, task.attempt), (TaskState::Assigned, 2));
        parts.store.close().await;
        assert!(!wake(&parts).await, "a store that does not answer is no success");
    }
}
