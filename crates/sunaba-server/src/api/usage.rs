//! Sums of model calls on the wire.

use serde::Serialize;
use sunaba_store::Spending;
use utoipa::ToSchema;

const MICROS_PER_USD: f64 = 1_000_000.0;

/// Millionths of a dollar in dollars.
#[expect(clippy::cast_precision_loss, reason = "an amount that is shown")]
pub(crate) fn usd(micros: i64) -> f64 {
    micros as f64 / MICROS_PER_USD
}

/// What model calls took and cost.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelUse {
    /// Calls that are over.
    calls: i64,
    /// Without those of the cache.
    input_tokens: i64,
    output_tokens: i64,
    cache_read_tokens: i64,
    cache_write_tokens: i64,
    /// Of calls that are over.
    cost_usd: f64,
    /// Of calls that are under way: the most they can cost.
    reserved_usd: f64,
}

impl From<Spending> for ModelUse {
    fn from(sum: Spending) -> Self {
        Self {
            calls: sum.calls,
            input_tokens: sum.input_tokens,
            output_tokens: sum.output_tokens,
            cache_read_tokens: sum.cache_read_tokens,
            cache_write_tokens: sum.cache_write_tokens,
            cost_usd: usd(sum.cost_micros),
            reserved_usd: usd(sum.reserved_micros),
        }
    }
}

/// A budget and what is left of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Budget {
    /// What may be spent.
    budget_usd: f64,
    /// What is spent or reserved.
    used_usd: f64,
    /// What is left; never below 0.
    left_usd: f64,
}

impl Budget {
    /// A budget under which this was spent.
    pub(crate) fn new(budget_usd: f64, sum: &Spending) -> Self {
        let used_usd = usd(sum.cost_micros + sum.reserved_micros);
        Self { budget_usd, used_usd, left_usd: (budget_usd - used_usd).max(0.0) }
    }
}
