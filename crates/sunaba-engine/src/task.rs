//! The life of a task.
//!
//! ```text
//! pending ─▶ claiming ─▶ assigned ─▶ running ─▶ (validating) ─▶ completed
//!    ▲                                  │            │
//!    │ └── retried, needs_revision ◀────┼────────────┘
//!    └──── waiting_input, waiting_quota ◀┘
//! ```
//! `failed` and `cancelled` can be reached from every living state; a retry
//! takes a failed or cancelled task back to `pending`. So does a follow-up, which somebody says after the end: from
//! `completed` too, since the next attempt goes on from what is there. One that is said while the sandbox still waits
//! for it takes a completed task back to `running`.

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
    /// Somebody says something to it after its sandbox is over: it goes on in another one.
    FollowUp,
    /// Somebody said something to it while its sandbox waited for that: it goes on where it is.
    GoOn,
    /// It waits for a person's answer.
    AwaitInput,
    /// It waits until a limit is reset.
    AwaitQuota,
    /// What it waited for has come.
    WakeUp,
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
            Self::FollowUp => "be followed up",
            Self::GoOn => "go on",
            Self::AwaitInput => "wait for an answer",
            Self::AwaitQuota => "wait for a limit",
            Self::WakeUp => "be woken up",
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
        (S::Assigned | S::Running | S::Validating, T::ResultRecorded)
        // It was done before its sandbox could be suspended.
        | (S::WaitingInput | S::WaitingQuota, T::ResultRecorded) => S::Completed,
        (S::Failed | S::Cancelled | S::NeedsRevision, T::Retry)
        | (
            S::Completed | S::Failed | S::Cancelled | S::NeedsRevision | S::WaitingInput | S::WaitingQuota,
            T::FollowUp,
        )
        | (S::WaitingInput | S::WaitingQuota, T::WakeUp) => S::Pending,
        // It may have been done before its place was given up for a wait.
        (S::Completed | S::WaitingInput | S::WaitingQuota, T::GoOn) => S::Running,
        (S::Assigned | S::Running, T::AwaitInput) => S::WaitingInput,
        (S::Assigned | S::Running, T::AwaitQuota) => S::WaitingQuota,
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

    #[test]
    fn a_follow_up_starts_only_what_nobody_works_on() {
        for state in S::ALL.iter().copied() {
            let free =
                state.is_terminal() || matches!(state, S::NeedsRevision | S::WaitingInput | S::WaitingQuota);
            assert_eq!(next_task_state(state, TaskTrigger::FollowUp).is_ok(), free, "{state}");
        }
    }

    #[test]
    fn what_waits_is_woken_up_and_nothing_else() {
        for trigger in [TaskTrigger::AwaitInput, TaskTrigger::AwaitQuota] {
            let waiting = next_task_state(S::Running, trigger).unwrap();
            assert_eq!(next_task_state(waiting, TaskTrigger::WakeUp), Ok(S::Pending));
            assert_eq!(next_task_state(waiting, TaskTrigger::Cancel), Ok(S::Cancelled));
            assert!(next_task_state(waiting, trigger).is_err(), "once");
        }
        assert!(next_task_state(S::Running, TaskTrigger::WakeUp).is_err());
    }
}
