//! The life of a sandbox.
//!
//! ```text
//! pending ──▶ creating ──▶ running ◀──▶ completing ──▶ completed
//!    │            │           │            │
//!    └────────────┴───────────┴────────────┴──▶ failed | cancelled
//! ```
//! A message that comes while a finished agent still waits for one takes it back to `running`. A sandbox that is
//! suspended, because its task waits for something, is `completed` without a result; the task goes on in another one.
//! An external sandbox, which somebody else made, starts at `running`.
//! Terminal states never change.

use sunaba_types::SandboxState as S;

use crate::IllegalStep;

/// What can happen to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxTrigger {
    /// An orchestrator asks the provider to make it.
    Create,
    /// Its first authenticated event arrived.
    Heard,
    /// Its agent says it is done.
    AgentDone,
    /// Somebody said something to its agent after that, and it goes on.
    GoOn,
    /// Its task waits for something, and its place is given up meanwhile.
    Suspend,
    /// Its result is recorded.
    ResultRecorded,
    /// It cannot go on.
    Fail,
    /// A person ends it.
    Cancel,
}

impl SandboxTrigger {
    const fn describe(self) -> &'static str {
        match self {
            Self::Create => "be created",
            Self::Heard => "start running",
            Self::AgentDone => "start completing",
            Self::GoOn => "go on",
            Self::Suspend => "be suspended",
            Self::ResultRecorded => "be completed",
            Self::Fail => "fail",
            Self::Cancel => "be cancelled",
        }
    }
}

/// The state after `trigger`, or why there is none.
pub fn next_sandbox_state(from: S, trigger: SandboxTrigger) -> Result<S, IllegalStep> {
    use SandboxTrigger as T;
    let to = match (from, trigger) {
        (S::Pending, T::Create) => S::Creating,
        (S::Creating, T::Heard) => S::Running,
        (S::Running, T::AgentDone) => S::Completing,
        (S::Completing, T::GoOn) => S::Running,
        (S::Completing, T::ResultRecorded) => S::Completed,
        (S::Pending | S::Creating | S::Running, T::Suspend) => S::Completed,
        (S::Pending | S::Creating | S::Running | S::Completing, T::Fail) => S::Failed,
        (S::Pending | S::Creating | S::Running | S::Completing, T::Cancel) => S::Cancelled,
        _ => return Err(IllegalStep { entity: "sandbox", from: from.as_str(), step: trigger.describe() }),
    };
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIGGERS: [SandboxTrigger; 8] = [
        SandboxTrigger::Create,
        SandboxTrigger::Heard,
        SandboxTrigger::AgentDone,
        SandboxTrigger::ResultRecorded,
        SandboxTrigger::Fail,
        SandboxTrigger::Cancel,
        SandboxTrigger::GoOn,
        SandboxTrigger::Suspend,
    ];

    #[test]
    fn terminal_states_never_change() {
        for state in S::ALL.iter().filter(|state| state.is_terminal()) {
            for trigger in TRIGGERS {
                assert!(next_sandbox_state(*state, trigger).is_err(), "{state} {trigger:?}");
            }
        }
    }

    #[test]
    fn every_living_state_can_fail_and_be_cancelled() {
        for state in S::ALL.iter().filter(|state| !state.is_terminal()) {
            assert_eq!(next_sandbox_state(*state, SandboxTrigger::Fail), Ok(S::Failed));
            assert_eq!(next_sandbox_state(*state, SandboxTrigger::Cancel), Ok(S::Cancelled));
        }
    }

    #[test]
    fn a_finished_agent_goes_on_until_its_sandbox_is_over() {
        assert_eq!(next_sandbox_state(S::Completing, SandboxTrigger::GoOn), Ok(S::Running));
        for state in [S::Pending, S::Creating, S::Running] {
            assert!(next_sandbox_state(state, SandboxTrigger::GoOn).is_err(), "{state}");
            assert_eq!(next_sandbox_state(state, SandboxTrigger::Suspend), Ok(S::Completed));
        }
        assert!(next_sandbox_state(S::Completing, SandboxTrigger::Suspend).is_err(), "it has a result");
    }

    #[test]
    fn the_main_road() {
        let mut state = S::Pending;
        for trigger in &TRIGGERS[..4] {
            state = next_sandbox_state(state, *trigger).unwrap();
        }
        assert_eq!(state, S::Completed);
    }
}
