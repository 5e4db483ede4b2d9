//! Decisions without I/O. One function decides each kind of step; the store
//! applies what it decides, in the transaction of whatever caused it.

mod effects;
pub mod egress;
mod sandbox;
pub mod silence;
mod task;

pub use effects::{Effects, effects_of, effects_of_watched, may_cause};
pub use sandbox::{SandboxTrigger, next_sandbox_state};
pub use task::{TaskTrigger, next_task_state};

/// A step that the rules do not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {entity} that is {from} cannot {step}")]
pub struct IllegalStep {
    /// What kind of thing it is.
    pub entity: &'static str,
    /// The state it is in.
    pub from: &'static str,
    /// What was asked.
    pub step: &'static str,
}
