//! What model calls cost: reserved before a call, settled after it, summed per sandbox, task and project.
//!
//! A reservation is durable before the call is made and counts in full until it is
//! settled, so that a server that dies in the middle of a call has spent it.
//! Amounts are millionths of a US dollar.

use async_trait::async_trait;
use sunaba_types::{CallId, NodeId, ProjectId, SandboxId, TaskId, Timestamp};

use crate::Result;

/// Room for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserve {
    /// Who calls.
    pub sandbox_id: SandboxId,
    /// The attempt its token is bound to; compared in the same transaction.
    pub attempt: i64,
    /// The node that makes the call: only it, begun anew, knows that nobody saw the answer.
    pub node_id: Option<NodeId>,
    /// How the call is worded.
    pub dialect: String,
    /// Which model it asks.
    pub model: String,
    /// Less than this is of no use to the call.
    pub least_micros: i64,
    /// The call never costs more than this.
    pub most_micros: i64,
}

/// Room that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The call, to be settled.
    pub id: CallId,
    /// How much is reserved: at least the least, at most the most.
    pub micros: i64,
    /// What is left besides under the tightest cap; `None` without any.
    pub left_micros: Option<i64>,
}

/// What a call turned out to cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settlement {
    /// What it cost.
    pub cost_micros: i64,
    /// Input tokens, without those of the cache.
    pub input_tokens: i64,
    /// Output tokens.
    pub output_tokens: i64,
    /// Input tokens read from the cache.
    pub cache_read_tokens: i64,
    /// Input tokens written to the cache.
    pub cache_write_tokens: i64,
    /// How it was known: `usage`, `bytes`, `reservation`, `not_sent`.
    pub known_by: String,
}

/// A call that was reserved and not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The call.
    pub id: CallId,
    /// Who calls.
    pub sandbox_id: SandboxId,
    /// How the call is worded.
    pub dialect: String,
    /// Which model it asks.
    pub model: String,
    /// How much is reserved.
    pub micros: i64,
    /// Since when.
    pub created_at: Timestamp,
}

/// Whose spending is summed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spender {
    /// One sandbox.
    Sandbox(SandboxId),
    /// One task, all its attempts.
    Task(TaskId),
    /// One project.
    Project(ProjectId),
}

/// A sum of model calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spending {
    /// Settled calls.
    pub calls: i64,
    /// Reserved and not settled, in millionths of a dollar.
    pub reserved_micros: i64,
    /// Settled, in millionths of a dollar.
    pub cost_micros: i64,
    /// Input tokens, without those of the cache.
    pub input_tokens: i64,
    /// Output tokens.
    pub output_tokens: i64,
    /// Input tokens read from the cache.
    pub cache_read_tokens: i64,
    /// Input tokens written to the cache.
    pub cache_write_tokens: i64,
}

/// Why a cap has no room, in the words of [`crate::Error::Full`]: whose it is, how much it is and what is left.
#[must_use]
pub fn no_room(whose: &str, cap_micros: i64, used_micros: i64) -> String {
    let (cap, used) = (dollars(cap_micros), dollars(used_micros));
    match cap_micros - used_micros {
        left @ 1.. if used_micros > 0 => {
            format!(
                "the {whose}'s budget of {cap} has only {} left ({used} is spent or reserved)",
                dollars(left)
            )
        }
        1.. => format!("the {whose}'s budget of {cap} is too small"),
        _ => format!("the {whose}'s budget of {cap} is used up ({used} is spent or reserved)"),
    }
}

/// An amount as people read it: cents, and as much below them as there is.
#[must_use]
pub fn dollars(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let (whole, below) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
    let below = format!("{below:06}");
    let kept = below.trim_end_matches('0').len().max(2);
    format!("{sign}${whole}.{}", &below[..kept])
}

/// Reservations, settlements and their sums.
#[async_trait]
pub trait SpendingStore {
    /// Reserves between the least and the most under every cap that applies: the sandbox's `budget_usd` over
    /// all attempts of its task (or itself, without a task) and the project's `total_budget_usd`.
    /// [`crate::Error::Full`] (`budget_exhausted`) names the cap that has no room; a superseded attempt is a
    /// conflict (`attempt_superseded`), an ended sandbox one too (`sandbox_ended`).
    async fn reserve_call(&self, reserve: Reserve) -> Result<Reserved>;
    /// Replaces the reservation by what the call cost. Settling again changes nothing and answers `false`.
    async fn settle_call(&self, id: &CallId, settlement: Settlement) -> Result<bool>;
    /// Every call that is reserved and not settled, by this node or (with none) by any.
    async fn open_calls(&self, node: Option<&NodeId>) -> Result<Vec<OpenCall>>;
    /// The sum for one of them.
    async fn spending(&self, of: &Spender) -> Result<Spending>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_money() {
        for (micros, words) in [
            (0, "$0.00"),
            (1_500_000, "$1.50"),
            (1_000, "$0.001"),
            (1, "$0.000001"),
            (12_345_678, "$12.345678"),
            (-20_000, "-$0.02"),
        ] {
            assert_eq!(dollars(micros), words);
        }
    }

    #[test]
    fn a_budget_that_is_too_small_is_not_said_to_be_used_up() {
        assert_eq!(no_room("task", 1_000, 0), "the task's budget of $0.001 is too small");
        assert_eq!(
            no_room("task", 50_000, 49_000),
            "the task's budget of $0.05 has only $0.001 left ($0.049 is spent or reserved)"
        );
        for used in [50_000, 60_000] {
            assert!(no_room("project", 50_000, used).contains("is used up"));
        }
    }
}
