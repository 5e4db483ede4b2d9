//! The life of a task.
//!
//! ```text
//! pending ─▶ claiming ─▶ assigned ─▶ running ─▶ (validating) ─▶ completed
//!    ▲                                  │            │
//!    └── retried, needs_revision ◀──────┴────────────┘
//! ```
//! `failed` and `cancelled` can be reached from every living state; a retry
//! takes a failed or cancelled task back to `pending`.

use sunaba_types::TaskState as S;

use crate::IllegalStep;

/// What can happen to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskTrigger {
    /// An orchestrator takes it.
    Claim,
    /// A sandbox is recorded for it.
    Assign,
    /// Its agent started.
    AgentStarted,
    /// Its branch, or that there is none, is recorded.
    ResultRecorded,
    /// The attempt failed for good.
    Fail,
    /// A person ends it.
    Cancel,
    /// It is to be tried again.
    Retry,
}

impl TaskTrigger {
    const fn describe(self) -> &'static str {
        match self {
            Self::Claim => "be claimed",
            Self::Assign => "get a sandbox",
            Self::AgentStarted => "start running",
            Self::ResultRecorded => "be completed",
            Self::Fail => "fail",
            Self::Cancel => "be cancelled",
            Self::Retry => "be retried",
        }
    }
}

/// The state after `trigger`, or why there is none.
pub fn next_task_state(from: S, trigger: TaskTrigger) -> Result<S, IllegalStep> {
    use TaskTrigger as T;
    let to = match (from, trigger) {
        (S::Pending, T::Claim) => S::Claiming,
        (S::Claiming, T::Assign) => S::Assigned,
        (S::Assigned, T::AgentStarted) => S::Running,
        // A worker that never said `agent.started` may still have done the work.
        (S::Assigned | S::Running | S::Validating, T::ResultRecorded) => S::Completed,
        (S::Failed | S::Cancelled | S::NeedsRevision, T::Retry) => S::Pending,
        (from, T::Fail) if !from.is_terminal() => S::Failed,
        (from, T::Cancel) if !from.is_terminal() => S::Cancelled,
        _ => return Err(IllegalStep { entity: "task", from: from.as_str(), step: trigger.describe() }),
    };
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_road() {
        let mut state = S::Pending;
        for trigger in
            [TaskTrigger::Claim, TaskTrigger::Assign, TaskTrigger::AgentStarted, TaskTrigger::ResultRecorded]
        {
            state = next_task_state(state, trigger).unwrap();
        }
        assert_eq!(state, S::Completed);
    }

    #[test]
    fn a_completed_task_is_never_retried() {
        assert!(next_task_state(S::Completed, TaskTrigger::Retry).is_err());
        assert_eq!(next_task_state(S::Failed, TaskTrigger::Retry), Ok(S::Pending));
    }
}
