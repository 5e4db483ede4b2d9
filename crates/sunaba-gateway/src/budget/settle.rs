//! Replaces a reservation by what the call cost.

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

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It never reached the vendor.
    NotSent,
    /// The vendor answered with an error, which costs nothing.
    Refused,
    /// The vendor had it; this much was seen of the answer.
    Answered(Seen),
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
            Outcome::Answered(seen) if seen.is_final => {
                (micros(self.price.cost(&seen.usage)), seen.usage, "usage")
            }
            Outcome::Answered(seen) => {
                let output = seen.usage.output_tokens.max(seen.size_bytes.div_ceil(BYTES_PER_TOKEN));
                let usage = Usage { output_tokens: output, ..seen.usage };
                let (usage, cost) = if seen.has_input {
                    (usage, self.price.cost(&usage))
                } else {
                    let usage = Usage { input_tokens: self.input_tokens, ..usage };
                    (usage, self.price.most(self.input_tokens, output))
                };
                (micros(cost).min(self.reserved.micros), usage, "bytes")
            }
        }
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
