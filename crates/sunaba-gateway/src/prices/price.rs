//! One model's prices, and the sum for the tokens of a call.

use crate::usage::Usage;

/// An answer's tokens when neither the request nor the table bounds them.
const MAX_OUTPUT_DEFAULT: u64 = 128_000;
/// Tokens of one image, where the table does not say.
const IMAGE_TOKENS_DEFAULT: u64 = 5_000;
/// Highest price that is taken, in dollars per million tokens: beyond it somebody mistook the unit.
const PRICE_MAX_USD: f64 = 100_000.0;

/// How fast a model writes at most, in tokens per second, by what a million of its tokens cost: cheap models are
/// the fast ones. Generous, because a call that is cut is charged by it.
const SPEEDS: [(f64, u64); 2] = [(2.0, 1_000), (9.0, 400)];
const SPEED_OF_DEAR_ONES: u64 = 200;

/// One entry of a price file, in US dollars per million tokens.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriceSpec {
    input: f64,
    output: f64,
    /// The input price, when left out.
    cache_read: Option<f64>,
    /// The input price, when left out.
    cache_write: Option<f64>,
    /// For what is kept longer than usual; the price of other writes, when left out.
    cache_write_long: Option<f64>,
    /// Most tokens of an answer that does not say.
    max_output: Option<u64>,
    /// Most tokens that one image counts for.
    image_tokens: Option<u64>,
    /// How fast it writes at most; by its price, when left out.
    tokens_per_second: Option<u64>,
    /// What a request with more input than this costs instead, all of it.
    over: Option<OverSpec>,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct OverSpec {
    input_tokens: u64,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_long: Option<f64>,
}

/// What one model's tokens cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Price {
    usual: Rates,
    over: Option<(u64, Rates)>,
    /// Most tokens of an answer that does not say.
    pub(crate) max_output: u64,
    /// Most tokens that one image counts for.
    pub(crate) image_tokens: u64,
    /// How fast it writes at most.
    pub(crate) tokens_per_second: u64,
}

/// Thousandths of a millionth of a dollar, for one token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Rates {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    cache_write_long: u64,
}

impl Price {
    pub(super) fn new(spec: &PriceSpec) -> Result<Self, String> {
        let usual = rates(spec.input, spec.output, spec.cache_read, spec.cache_write, spec.cache_write_long)?;
        let over = spec.over.as_ref().map(|over| {
            rates(over.input, over.output, over.cache_read, over.cache_write, over.cache_write_long)
                .map(|rates| (over.input_tokens, rates))
        });
        let max_output = spec.max_output.unwrap_or(MAX_OUTPUT_DEFAULT);
        if max_output == 0 || max_output > 100_000_000 {
            return Err("max_output is a number of tokens from 1".to_owned());
        }
        let image_tokens = spec.image_tokens.unwrap_or(IMAGE_TOKENS_DEFAULT);
        let tokens_per_second = spec.tokens_per_second.unwrap_or_else(|| speed(spec.output));
        Ok(Self { usual, over: over.transpose()?, max_output, image_tokens, tokens_per_second })
    }

    /// What the tokens of a call cost, in millionths of a dollar, rounded up.
    pub(crate) fn cost(&self, usage: &Usage) -> u64 {
        let input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
        let rates = self.rates_for(input);
        let long = usage.cache_write_long_tokens.min(usage.cache_write_tokens);
        micros(&[
            (usage.input_tokens, rates.input),
            (usage.output_tokens, rates.output),
            (usage.cache_read_tokens, rates.cache_read),
            (usage.cache_write_tokens - long, rates.cache_write),
            (long, rates.cache_write_long),
        ])
    }

    /// The most that this many tokens can cost.
    pub(crate) fn most(&self, input_tokens: u64, output_tokens: u64) -> u64 {
        let rates = self.rates_for(input_tokens);
        micros(&[(input_tokens, rates.dearest_input()), (output_tokens, rates.output)])
    }

    /// How many output tokens an amount pays for after that much input.
    pub(crate) fn output_for(&self, budget_micros: u64, input_tokens: u64) -> u64 {
        let rates = self.rates_for(input_tokens);
        let left = budget_micros.saturating_sub(self.most(input_tokens, 0));
        match rates.output {
            0 => u64::MAX,
            rate => u64::try_from(u128::from(left) * 1000 / u128::from(rate)).unwrap_or(u64::MAX),
        }
    }

    fn rates_for(&self, input_tokens: u64) -> &Rates {
        match &self.over {
            Some((over, rates)) if input_tokens > *over => rates,
            _ => &self.usual,
        }
    }
}

impl Rates {
    fn dearest_input(&self) -> u64 {
        self.input.max(self.cache_read).max(self.cache_write).max(self.cache_write_long)
    }
}

fn speed(output_price: f64) -> u64 {
    let fitting = SPEEDS.iter().find(|(below, _)| output_price < *below);
    fitting.map_or(SPEED_OF_DEAR_ONES, |(_, speed)| *speed)
}

fn rates(
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_long: Option<f64>,
) -> Result<Rates, String> {
    let cache_write = cache_write.unwrap_or(input);
    Ok(Rates {
        input: nanos(input)?,
        output: nanos(output)?,
        cache_read: nanos(cache_read.unwrap_or(input))?,
        cache_write: nanos(cache_write)?,
        cache_write_long: nanos(cache_write_long.unwrap_or(cache_write))?,
    })
}

/// Dollars per million tokens are millionths of a dollar per token.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
fn nanos(usd_per_million: f64) -> Result<u64, String> {
    if !(0.0..=PRICE_MAX_USD).contains(&usd_per_million) {
        return Err(format!("{usd_per_million} is no price in US dollars per million tokens"));
    }
    Ok((usd_per_million * 1000.0).ceil() as u64)
}

fn micros(amounts: &[(u64, u64)]) -> u64 {
    let nanos: u128 = amounts.iter().map(|(tokens, rate)| u128::from(*tokens) * u128::from(*rate)).sum();
    // Bounded, so that sums of amounts stay far from overflowing.
    u64::try_from(nanos.div_ceil(1000)).unwrap_or(u64::MAX).min(1 << 50)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn price(yaml: &str) -> Price {
        Price::new(&serde_saphyr::from_str(yaml).unwrap()).unwrap()
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let price = price(
            "{input: 3, output: 15, cache_read: 0.3, cache_write: 3.75, cache_write_long: 6, \
             over: {input_tokens: 200000, input: 6, output: 22.5}}",
        );
        let usage = Usage {
            input_tokens: 1000,
            output_tokens: 100,
            cache_read_tokens: 10_000,
            cache_write_tokens: 400,
            cache_write_long_tokens: 100,
        };
        assert_eq!(price.cost(&usage), 3000 + 1500 + 3000 + 1125 + 600);
        let long = Usage { input_tokens: 200_001, output_tokens: 2, ..Usage::default() };
        assert_eq!(price.cost(&long), 1_200_006 + 45);
        assert_eq!(price.cost(&Usage { cache_read_tokens: 1, ..Usage::default() }), 1, "rounded up");
    }

    proptest! {
        #[test]
        fn no_call_costs_more_than_the_most(
            input in 0..300_000u64, read in 0..300_000u64, write in 0..300_000u64, long in 0..300_000u64, output in 0..100_000u64,
        ) {
            let price = price("{input: 5, output: 25, cache_read: 0.5, cache_write: 6.25, cache_write_long: 10}");
            let usage = Usage {
                input_tokens: input, output_tokens: output, cache_read_tokens: read,
                cache_write_tokens: write, cache_write_long_tokens: long,
            };
            prop_assert!(price.cost(&usage) <= price.most(input + read + write, output));
        }

        #[test]
        fn what_an_amount_pays_for_fits_into_it(budget in 0..10_000_000u64, input in 0..400_000u64) {
            let price = price("{input: 3, output: 15, over: {input_tokens: 200000, input: 6, output: 22.5}}");
            let output = price.output_for(budget, input);
            if price.most(input, 0) <= budget {
                prop_assert!(price.most(input, output) <= budget);
                prop_assert!(price.most(input, output + 1) > budget - 1);
            } else {
                prop_assert_eq!(output, 0);
            }
        }
    }
}
