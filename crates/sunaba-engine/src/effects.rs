//! What an event causes, beyond being recorded.

use sunaba_types::{EventPayload, SandboxState, TaskState};

use crate::{SandboxTrigger, TaskTrigger, next_sandbox_state, next_task_state};

/// The steps that an event causes. A late event causes none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// States the sandbox passes through, in order (`creating → running → completing` may be two).
    pub sandbox: Vec<SandboxState>,
    /// The task's next state.
    pub task: Option<TaskState>,
    /// Why the attempt failed, if it did.
    pub failure: Option<String>,
}

/// Decides what an event from a sandbox's worker causes.
///
/// `task` is `None` for a sandbox that works on no task. Illegal steps are not
/// errors here: a late or repeated event is recorded and changes nothing.
pub fn effects_of(
    event_type: &str,
    payload: &EventPayload,
    sandbox: SandboxState,
    task: Option<TaskState>,
) -> Effects {
    let mut effects = Effects::default();
    let mut state = sandbox;
    step_sandbox(&mut effects, &mut state, SandboxTrigger::Heard);
    match event_type {
        "agent.started" => step_task(&mut effects, task, TaskTrigger::AgentStarted),
        "agent.error" | "agent.failed" => {
            let reason = payload.field::<String>("error").unwrap_or_else(|| event_type.to_owned());
            if step_sandbox(&mut effects, &mut state, SandboxTrigger::Fail) {
                effects.failure = Some(reason);
                step_task(&mut effects, task, TaskTrigger::Fail);
            }
        }
        "agent.completed" if flag(payload, "success") && !flag(payload, "continuous") => {
            agent_done(&mut effects, &mut state, task);
        }
        "continuous.completed" if flag(payload, "validation_passed") => {
            agent_done(&mut effects, &mut state, task);
        }
        _ => {}
    }
    effects
}

/// A sandbox that works on no task has no result to record: it is completed at once.
fn agent_done(effects: &mut Effects, state: &mut SandboxState, task: Option<TaskState>) {
    let done = step_sandbox(effects, state, SandboxTrigger::AgentDone);
    if done && task.is_none() {
        step_sandbox(effects, state, SandboxTrigger::ResultRecorded);
    }
}

fn flag(payload: &EventPayload, name: &str) -> bool {
    payload.field::<bool>(name).unwrap_or(false)
}

fn step_sandbox(effects: &mut Effects, state: &mut SandboxState, trigger: SandboxTrigger) -> bool {
    let Ok(next) = next_sandbox_state(*state, trigger) else { return false };
    *state = next;
    effects.sandbox.push(next);
    true
}

fn step_task(effects: &mut Effects, task: Option<TaskState>, trigger: TaskTrigger) {
    effects.task = task.and_then(|state| next_task_state(state, trigger).ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(value: &serde_json::Value) -> EventPayload {
        EventPayload::from_value(value).unwrap()
    }

    #[test]
    fn the_first_event_of_any_type_makes_it_run() {
        let effects = effects_of(
            "agent.heartbeat",
            &EventPayload::empty(),
            SandboxState::Creating,
            Some(TaskState::Assigned),
        );
        assert_eq!(effects.sandbox, vec![SandboxState::Running]);
        assert_eq!(effects.task, None);
    }

    #[test]
    fn a_fast_agent_may_be_done_with_its_first_event() {
        let done = payload(&serde_json::json!({"success": true}));
        let effects = effects_of("agent.completed", &done, SandboxState::Creating, Some(TaskState::Assigned));
        assert_eq!(effects.sandbox, vec![SandboxState::Running, SandboxState::Completing]);
    }

    #[test]
    fn without_a_task_there_is_nothing_left_to_record() {
        let done = payload(&serde_json::json!({"success": true}));
        let effects = effects_of("agent.completed", &done, SandboxState::Running, None);
        assert_eq!(effects.sandbox, vec![SandboxState::Completing, SandboxState::Completed]);
    }

    #[test]
    fn a_late_event_changes_nothing() {
        let failed = payload(&serde_json::json!({"error": "boom"}));
        let effects =
            effects_of("agent.failed", &failed, SandboxState::Completed, Some(TaskState::Completed));
        assert_eq!(effects, Effects::default());
    }

    #[test]
    fn a_failure_carries_its_reason() {
        let failed = payload(&serde_json::json!({"error": "boom"}));
        let effects = effects_of("agent.failed", &failed, SandboxState::Running, Some(TaskState::Running));
        assert_eq!(effects.failure.as_deref(), Some("boom"));
        assert_eq!(effects.task, Some(TaskState::Failed));
    }

    #[test]
    fn a_continuous_run_is_not_done_before_it_is_validated() {
        let turn = payload(&serde_json::json!({"success": true, "continuous": true}));
        assert!(effects_of("agent.completed", &turn, SandboxState::Running, None).sandbox.is_empty());
    }
}
