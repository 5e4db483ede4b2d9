//! What a call may cost and what it did cost.
//!
//! Before a call its most is reserved in the store, where parallel calls and
//! other servers see it; afterwards the reservation is replaced by the cost. A
//! call that fits only in part is let through with fewer output tokens. A call
//! whose end was not seen costs what was sent plus what the vendor can have
//! written until then ([`settle`]); one whose server died costs its whole
//! reservation ([`recover`]). Nothing that reached a vendor who answered costs
//! nothing.

mod recover;
mod settle;

use http::StatusCode;
use serde_json::json;
use sunaba_store::{Error, Reserve, Reserved, dollars};

use crate::model::Refusal;
use crate::prices::Price;
use crate::{Caller, GatewayState, record};

pub(crate) use settle::{Cut, Outcome, Settled};

/// The least answer that is worth a call, unless less was asked for.
const LEAST_OUTPUT_TOKENS: u64 = 256;

/// What a call may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    /// Never less than the real number.
    pub(crate) input_tokens: u64,
    /// The bound that the request sets on its answer, or the model's own.
    pub(crate) output_tokens: u64,
    /// How many answers are asked for.
    pub(crate) choices: u64,
    /// Tokens of the answer that the request wants for thinking, and that it fails without.
    pub(crate) thinking_tokens: u64,
}

impl Need {
    fn most_micros(&self, price: &Price) -> u64 {
        price.most(self.input_tokens, self.output_tokens.saturating_mul(self.choices))
    }

    fn least_micros(&self, price: &Price) -> u64 {
        let least = (self.thinking_tokens + LEAST_OUTPUT_TOKENS).min(self.output_tokens);
        price.most(self.input_tokens, least.saturating_mul(self.choices))
    }
}

/// Room for one call, to be settled whatever becomes of it.
#[derive(Debug)]
pub(crate) struct Spend {
    reserved: Reserved,
    price: Price,
    input_tokens: u64,
    /// The bound on all answers together.
    output_tokens: u64,
    choices: u64,
}

/// Why there is no room.
#[derive(Debug)]
pub(crate) enum NoRoom {
    /// Too little is left; the words name the cap.
    Budget(String),
    /// The sandbox has no say any more.
    Standing(String),
    /// The store cannot say.
    Store(Error),
}

impl Spend {
    /// Reserves the most of a call, or nothing.
    pub(crate) async fn reserve_whole(ask: &Ask<'_>, need: &Need) -> Result<Self, NoRoom> {
        let most = need.most_micros(ask.price);
        Self::reserve(ask, need, most, most).await
    }

    /// Reserves exactly what a call will cost, which only a script can tell before it.
    pub(crate) async fn reserve_exactly(ask: &Ask<'_>, cost_micros: u64) -> Result<Self, NoRoom> {
        let need = Need { input_tokens: 0, output_tokens: 0, choices: 1, thinking_tokens: 0 };
        Self::reserve(ask, &need, cost_micros, cost_micros).await
    }

    /// Reserves what is left for a call, if that is of any use; gives the output tokens that it pays for.
    pub(crate) async fn reserve_part(ask: &Ask<'_>, need: &Need) -> Result<(Self, u64), NoRoom> {
        let (least, most) = (need.least_micros(ask.price), need.most_micros(ask.price));
        let mut spend = Self::reserve(ask, need, least, most).await?;
        let granted = u64::try_from(spend.reserved.micros).unwrap_or(0);
        let output = ask.price.output_for(granted, need.input_tokens) / need.choices.max(1);
        let output = output.min(need.output_tokens);
        spend.output_tokens = output.saturating_mul(need.choices);
        Ok((spend, output))
    }

    async fn reserve(ask: &Ask<'_>, need: &Need, least: u64, most: u64) -> Result<Self, NoRoom> {
        let reserve = Reserve {
            sandbox_id: ask.caller.sandbox_id.clone(),
            attempt: ask.caller.attempt,
            node_id: ask.state.config.nodes.as_ref().map(|nodes| nodes.me().clone()),
            dialect: ask.dialect.to_owned(),
            model: ask.model.to_owned(),
            least_micros: micros(least),
            most_micros: micros(most),
        };
        let reserved = ask.state.config.store.reserve_call(reserve).await.map_err(|error| match error {
            Error::Full { detail, .. } => {
                NoRoom::Budget(format!("{detail}; {}", needed(micros(least), micros(most))))
            }
            Error::Conflict { code, detail } => NoRoom::Standing(format!("{code}: {detail}")),
            other => NoRoom::Store(other),
        })?;
        let output_tokens = need.output_tokens.saturating_mul(need.choices);
        let (price, input_tokens, choices) = (ask.price.clone(), need.input_tokens, need.choices);
        Ok(Self { reserved, price, input_tokens, output_tokens, choices })
    }

    /// Says in the log that an answer was bounded more tightly than was asked for.
    pub(crate) async fn record_lowered(&self, ask: &Ask<'_>, from: u64, to: u64) {
        let payload = json!({
            "call_id": self.reserved.id,
            "model": ask.model,
            "lowered_from": from,
            "lowered_to": to,
            "reserved_usd": usd(self.reserved.micros),
        });
        record::budget(ask.state, &ask.caller.sandbox_id, &payload).await;
    }
}

/// Who asks for room, and for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) state: &'a GatewayState,
    pub(crate) caller: &'a Caller,
    pub(crate) dialect: &'static str,
    pub(crate) model: &'a str,
    pub(crate) price: &'a Price,
}

impl From<NoRoom> for Refusal {
    fn from(reason: NoRoom) -> Self {
        match reason {
            // Not 429 or 402: clients take those for something that passes, and try again.
            NoRoom::Budget(words) => Self::new(
                StatusCode::BAD_REQUEST,
                "budget_exhausted",
                format!(
                    "{words}. Trying again changes nothing. Send less (a shorter conversation, a smaller model) if \
                     that can fit; otherwise stop here: a person can raise the budget and start the task again"
                ),
            ),
            NoRoom::Standing(words) => Self::new(StatusCode::FORBIDDEN, "permission_error", words),
            NoRoom::Store(error) => {
                tracing::warn!(%error, "a model call could not be reserved");
                Self::unavailable()
            }
        }
    }
}

/// What a call needs, as its refusal says it.
fn needed(least: i64, most: i64) -> String {
    if least == most {
        return format!("this call needs {}", dollars(most));
    }
    format!("this call needs at least {} and may cost up to {}", dollars(least), dollars(most))
}

/// An amount as the store takes it.
pub(crate) fn micros(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// An amount as people read it.
#[expect(clippy::cast_precision_loss, reason = "an amount that is shown to people")]
pub(crate) fn usd(micros: i64) -> f64 {
    micros as f64 / 1_000_000.0
}
