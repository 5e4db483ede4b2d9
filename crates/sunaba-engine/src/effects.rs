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
    /// How its agent's program ended in the middle of the work, if it did. Nothing has failed yet.
    pub crash: Option<String>,
}

/// The class of errors that another try may not meet again.
const CRASHED: &str = "crashed";

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
        "agent.started" if flag(payload, "is_resuming") && state == SandboxState::Completing => {
            step_sandbox(&mut effects, &mut state, SandboxTrigger::GoOn);
            step_task(&mut effects, task, TaskTrigger::GoOn);
        }
        "agent.started" => step_task(&mut effects, task, TaskTrigger::AgentStarted),
        // It was told to end because its task waits: nothing failed.
        "agent.error" | "agent.failed" if task.is_some_and(waits) => {
            step_sandbox(&mut effects, &mut state, SandboxTrigger::Suspend);
        }
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

/// The same for a sandbox whose end is seen by whoever brought it up. A crash fails nothing here: whether the task is
/// tried again is decided together with the failure, when the sandbox is over, and must not be lost in between. Nor
/// does anything that is told after it (`is_crashed`): that only says how the rest ends.
pub fn effects_of_watched(
    event_type: &str,
    payload: &EventPayload,
    sandbox: SandboxState,
    task: Option<TaskState>,
    is_crashed: bool,
) -> Effects {
    let effects = effects_of(event_type, payload, sandbox, task);
    let crashed = is_crashed || payload.field::<String>("error_class").is_some_and(|class| class == CRASHED);
    let works = matches!(sandbox, SandboxState::Creating | SandboxState::Running);
    if !(crashed && works && effects.task == Some(TaskState::Failed)) {
        return effects;
    }
    let heard = effects.sandbox.into_iter().filter(|state| *state == SandboxState::Running).collect();
    Effects { sandbox: heard, task: None, failure: None, crash: effects.failure }
}

/// Whether an event of this type may cause something in a sandbox that is at work, or has to do with messages. Of all
/// others the store need not look further than the log.
pub fn may_cause(event_type: &str) -> bool {
    matches!(
        event_type,
        "agent.started"
            | "agent.error"
            | "agent.failed"
            | "agent.completed"
            | "continuous.completed"
            | "agent.message_injected"
    )
}

fn waits(task: TaskState) -> bool {
    matches!(task, TaskState::WaitingInput | TaskState::WaitingQuota)
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
    fn what_may_cause_nothing_causes_nothing() {
        let telling =
            payload(&serde_json::json!({"success": true, "validation_passed": true, "is_resuming": true}));
        let types =
            ["agent.started", "agent.error", "agent.failed", "agent.completed", "continuous.completed"];
        let others = [
            "agent.heartbeat",
            "agent.tool_use",
            "agent.message",
            "gateway.git",
            "continuous.iteration",
            "x",
        ];
        for event_type in types.into_iter().chain(others) {
            for state in [SandboxState::Running, SandboxState::Completing] {
                for task in
                    [None, Some(TaskState::Assigned), Some(TaskState::Running), Some(TaskState::WaitingInput)]
                {
                    let effects = effects_of_watched(event_type, &telling, state, task, false);
                    assert!(
                        may_cause(event_type) || effects == Effects::default(),
                        "{event_type} {effects:?}"
                    );
                }
            }
        }
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
    fn a_crash_that_somebody_watches_fails_nothing_yet() {
        let told = |class: &str, sandbox, task| {
            let failed = payload(&serde_json::json!({"error": "it ended", "error_class": class}));
            effects_of_watched("agent.failed", &failed, sandbox, task, false)
        };
        let crash = told("crashed", SandboxState::Creating, Some(TaskState::Assigned));
        assert_eq!((crash.sandbox, crash.task), (vec![SandboxState::Running], None));
        assert_eq!((crash.crash.as_deref(), crash.failure), (Some("it ended"), None));
        let gave_up = told("auth", SandboxState::Running, Some(TaskState::Running));
        assert_eq!((gave_up.sandbox, gave_up.crash), (vec![SandboxState::Failed], None));
        let waits = told("crashed", SandboxState::Running, Some(TaskState::WaitingInput));
        assert_eq!((waits.sandbox, waits.crash), (vec![SandboxState::Completed], None));
        let alone = told("crashed", SandboxState::Running, None);
        assert_eq!((alone.sandbox, alone.crash), (vec![SandboxState::Failed], None), "nothing to try again");
    }

    #[test]
    fn the_last_words_of_what_has_crashed_fail_nothing_either() {
        let told = |event_type, data| {
            let running = (SandboxState::Running, Some(TaskState::Running));
            effects_of_watched(event_type, &payload(&data), running.0, running.1, true)
        };
        let ended =
            told("agent.failed", serde_json::json!({"error": "told to end", "error_class": "cancelled"}));
        assert_eq!((ended.sandbox, ended.task, ended.failure), (vec![], None, None));
        let done = told("agent.completed", serde_json::json!({"success": true}));
        assert_eq!(done.sandbox, [SandboxState::Completing], "it was done all the same");
    }

    #[test]
    fn an_agent_that_is_told_something_after_it_was_done_goes_on() {
        let again = payload(&serde_json::json!({"is_resuming": true}));
        let effects =
            effects_of("agent.started", &again, SandboxState::Completing, Some(TaskState::Completed));
        assert_eq!((effects.sandbox, effects.task), (vec![SandboxState::Running], Some(TaskState::Running)));
        let waiting =
            effects_of("agent.started", &again, SandboxState::Completing, Some(TaskState::WaitingInput));
        assert_eq!(waiting.task, Some(TaskState::Running), "it was done before its place was given up");
        let repeated = payload(&serde_json::json!({"is_resuming": false}));
        let effects =
            effects_of("agent.started", &repeated, SandboxState::Completing, Some(TaskState::Completed));
        assert_eq!(effects, Effects::default());
    }

    #[test]
    fn an_agent_that_is_ended_because_its_task_waits_has_not_failed() {
        let ended = payload(&serde_json::json!({"error": "told to end"}));
        let effects =
            effects_of("agent.failed", &ended, SandboxState::Running, Some(TaskState::WaitingInput));
        assert_eq!(effects.sandbox, vec![SandboxState::Completed]);
        assert_eq!((effects.task, effects.failure), (None, None));
    }

    #[test]
    fn a_continuous_run_is_not_done_before_it_is_validated() {
        let turn = payload(&serde_json::json!({"success": true, "continuous": true}));
        assert!(effects_of("agent.completed", &turn, SandboxState::Running, None).sandbox.is_empty());
        let over = |passed: bool| {
            let payload =
                payload(&serde_json::json!({"validation_passed": passed, "stop_reason": "completed"}));
            effects_of("continuous.completed", &payload, SandboxState::Running, Some(TaskState::Running))
        };
        assert_eq!(over(true).sandbox, vec![SandboxState::Completing]);
        assert_eq!(over(false), Effects::default(), "what follows says why it failed");
    }
}
