//! What a model call may cost.

use sunaba_store::{Error, Reserve, Result, Writer, no_room};
use sunaba_types::Sandbox;

use super::{Draft, superseded};

const MICROS_PER_USD: f64 = 1_000_000.0;

/// A cap in dollars, in millionths, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a cast from f64 saturates, and a cap is far below the bounds"
)]
fn micros(usd: f64) -> i64 {
    (usd * MICROS_PER_USD).floor() as i64
}

/// What is left under a cap, with the words to say when it is not enough.
#[derive(Debug)]
pub struct Cap {
    left_micros: i64,
    whose: String,
}

impl Cap {
    /// The cap of `whose`, of which so much is used or reserved.
    pub fn new(whose: &str, usd: f64, used_micros: i64) -> Self {
        let cap = micros(usd);
        Self { left_micros: cap - used_micros, whose: no_room(whose, cap, used_micros) }
    }
}

/// What a call gets.
#[derive(Debug)]
pub struct Grant {
    /// What is reserved for it.
    pub micros: i64,
    /// What is left then under the narrowest cap.
    pub left_micros: Option<i64>,
}

impl Grant {
    /// As much as was asked for, or what is left, if that is not less than the least.
    pub fn decide(ask: &Reserve, caps: Vec<Cap>) -> Result<Self> {
        let least = ask.least_micros.max(0);
        let most = ask.most_micros.max(least);
        let Some(cap) = caps.into_iter().min_by_key(|cap| cap.left_micros) else {
            return Ok(Self { micros: most, left_micros: None });
        };
        if cap.left_micros < least {
            return Err(Error::Full { code: "budget_exhausted", detail: cap.whose });
        }
        let micros = most.min(cap.left_micros);
        Ok(Self { micros, left_micros: Some(cap.left_micros - micros) })
    }
}

impl Draft {
    /// Money is spent by the present attempt and only while it runs: there is no time for late calls.
    pub fn refuse_to_spend(&mut self, sandbox: &Sandbox, attempt: i64) -> Result<()> {
        if self.is_superseded(&sandbox.id, Writer::Sandbox { attempt }) {
            return Err(superseded());
        }
        if sandbox.state.is_terminal() {
            return Err(Error::conflict("sandbox_ended", format!("the sandbox is {}", sandbox.state)));
        }
        Ok(())
    }
}
