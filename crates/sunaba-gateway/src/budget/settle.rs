//! Replaces a reservation by what the call cost.
//!
//! A vendor charges for what its model wrote, not for what was heard of it. Where the end of an answer was not
//! seen, its output is taken to be as long as the bytes that came tell, or as long as a fast model writes in the
//! time that it had, whichever is more. Of an answer that comes in one piece nothing is heard before all of it is
//! written, however long the vendor goes on after its reader is gone: without it the whole reservation is spent.

use std::time::Duration;

use sunaba_store::{Error, Settlement};
use sunaba_types::CallId;

use super::{Spend, micros};
use crate::GatewayState;
use crate::usage::{Seen, Usage};

/// How long a store that does not answer is asked again. After that the call stays open, and the next start
/// settles it at its whole reservation.
const PATIENCE: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Bytes of a streamed answer for one token of output, when nothing else tells: fewer than streams really have,
/// because of what stands around each piece of text.
const BYTES_PER_TOKEN: u64 = 3;
/// How long a vendor goes on writing before it notices that nobody reads.
const NOTICED_AFTER: Duration = Duration::from_secs(1);

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It never reached the vendor.
    NotSent,
    /// The vendor answered with an error, which costs nothing.
    Refused,
    /// The vendor answered and said what it used.
    Answered(Seen),
    /// The vendor had it, and what it used was not heard.
    Cut(Cut),
}

/// A call whose usage was not heard.
#[derive(Debug)]
pub(crate) struct Cut {
    /// This much was seen of the answer.
    pub(crate) seen: Seen,
    /// How long the vendor had.
    pub(crate) lasted: Duration,
    /// Whether the answer came as it was written.
    pub(crate) streamed: bool,
}

/// What a call cost, as it is recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settled {
    pub(crate) call_id: Option<CallId>,
    pub(crate) cost_micros: i64,
    pub(crate) reserved_micros: i64,
    /// How the cost is known.
    pub(crate) known_by: Option<&'static str>,
    pub(crate) usage: Usage,
}

impl Spend {
    /// Settles the call; asks again while the store does not answer.
    pub(crate) async fn settle(self, state: &GatewayState, outcome: &Outcome) -> Settled {
        let (cost, usage, known_by) = self.price(outcome);
        if cost > self.reserved.micros {
            tracing::warn!(call_id = %self.reserved.id, cost, reserved = self.reserved.micros,
                "a model call cost more than was reserved for it; is the price table right?");
        }
        let settlement = Settlement {
            cost_micros: cost,
            input_tokens: micros(usage.input_tokens),
            output_tokens: micros(usage.output_tokens),
            cache_read_tokens: micros(usage.cache_read_tokens),
            cache_write_tokens: micros(usage.cache_write_tokens),
            known_by: known_by.to_owned(),
        };
        persist(state, &self.reserved.id, settlement).await;
        Settled {
            call_id: Some(self.reserved.id),
            cost_micros: cost,
            reserved_micros: self.reserved.micros,
            known_by: Some(known_by),
            usage,
        }
    }

    fn price(&self, outcome: &Outcome) -> (i64, Usage, &'static str) {
        match outcome {
            Outcome::NotSent => (0, Usage::default(), "not_sent"),
            Outcome::Refused => (0, Usage::default(), "refused"),
            Outcome::Answered(seen) => (micros(self.price.cost(&seen.usage)), seen.usage, "usage"),
            Outcome::Cut(cut) if !cut.streamed => {
                let usage = Usage { input_tokens: self.input_tokens, ..Usage::default() };
                (self.reserved.micros, usage, "reservation")
            }
            Outcome::Cut(Cut { seen, lasted, .. }) => {
                let heard = seen.usage.output_tokens.max(seen.size_bytes.div_ceil(BYTES_PER_TOKEN));
                let written = self.written_in(*lasted);
                let known_by = if written > heard { "time" } else { "bytes" };
                let output_tokens = heard.max(written).min(self.output_tokens);
                let usage = Usage { output_tokens, ..seen.usage };
                let (usage, cost) = if seen.has_input {
                    (usage, self.price.cost(&usage))
                } else {
                    let usage = Usage { input_tokens: self.input_tokens, ..usage };
                    (usage, self.price.most(self.input_tokens, usage.output_tokens))
                };
                (micros(cost).min(self.reserved.micros), usage, known_by)
            }
        }
    }

    /// How many tokens the model can have written in some time.
    fn written_in(&self, time: Duration) -> u64 {
        let millis = u64::try_from((time + NOTICED_AFTER).as_millis()).unwrap_or(u64::MAX);
        let each = millis.saturating_mul(self.price.tokens_per_second).div_ceil(1000);
        each.saturating_mul(self.choices.max(1))
    }
}

/// Settles a call in the store; `false` if that was not possible.
pub(super) async fn persist(state: &GatewayState, id: &CallId, settlement: Settlement) -> bool {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut pause = FIRST_PAUSE;
    loop {
        let Err(error) = state.config.store.settle_call(id, settlement.clone()).await else { return true };
        let lasts = matches!(error, Error::NotFound { .. } | Error::Conflict { .. });
        if lasts || tokio::time::Instant::now() + pause > deadline {
            tracing::error!(call_id = %id, %error, "a model call stays unsettled and counts in full");
            return false;
        }
        tracing::warn!(call_id = %id, %error, "a model call could not be settled yet");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
