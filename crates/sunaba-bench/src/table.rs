//! The table of results, and what a list of delays says.

use std::fmt;
use std::time::Duration;

/// What was measured, in order.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<[String; 3]>);

impl Table {
    /// Adds a line and shows it at once, so that a long run says how far it is.
    pub(crate) fn row(&mut self, what: &str, figure: impl Into<String>, beside: impl Into<String>) {
        let row = [what.to_owned(), figure.into(), beside.into()];
        eprintln!("{} | {} | {}", row[0], row[1], row[2]);
        self.0.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | measured | beside it |\n|---|---|---|")?;
        for [what, figure, beside] in &self.0 {
            writeln!(f, "| {what} | {figure} | {beside} |")?;
        }
        Ok(())
    }
}

/// Delays of many requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Delays(Vec<Duration>);

impl Delays {
    pub(crate) fn push(&mut self, delay: Duration) {
        self.0.push(delay);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The delay that `part` of them did not exceed.
    pub(crate) fn quantile_ms(&mut self, part: f64) -> f64 {
        if self.0.is_empty() {
            return f64::NAN;
        }
        self.0.sort_unstable();
        let rank = (part * self.0.len() as f64).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1].as_secs_f64() * 1000.0
    }

    /// `p50 1.2 ms, p99 3.4 ms`.
    pub(crate) fn describe(&mut self) -> String {
        format!("p50 {:.1} ms, p99 {:.1} ms", self.quantile_ms(0.5), self.quantile_ms(0.99))
    }
}

/// The middle one of several figures: one odd round does not move it.
pub(crate) fn median(figures: &[f64]) -> f64 {
    if figures.is_empty() {
        return f64::NAN;
    }
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// `1.25 ×`; what cannot be compared says so instead of a figure.
pub(crate) fn times(figure: f64, yardstick: f64) -> String {
    let ratio = figure / yardstick;
    if ratio.is_finite() { format!("{ratio:.2} ×") } else { "not comparable with".to_owned() }
}

/// `1,000,000`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_delays_that_were_seen() {
        let mut delays = Delays::default();
        for ms in (1..=100).rev() {
            delays.push(Duration::from_millis(ms));
        }
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| delays.quantile_ms(part)), [1.0, 50.0, 99.0, 100.0]);
        assert_eq!(delays.describe(), "p50 50.0 ms, p99 99.0 ms");
        let mut one = Delays::default();
        one.push(Duration::from_millis(7));
        assert_eq!([one.quantile_ms(0.5), one.quantile_ms(0.99)], [7.0, 7.0]);
        assert!(Delays::default().quantile_ms(0.5).is_nan());
    }

    #[test]
    fn a_median_is_not_moved_by_one_odd_round() {
        assert_eq!(median(&[5.0, 1000.0, 4.0]), 5.0);
        assert_eq!(median(&[4.0, 6.0]), 5.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratios_say_when_there_is_none() {
        assert_eq!(times(5.0, 4.0), "1.25 ×");
        assert_eq!(times(5.0, 0.0), "not comparable with");
        assert_eq!(times(f64::NAN, 4.0), "not comparable with");
    }

    #[test]
    fn long_numbers_are_readable() {
        let numbers = [0, 999, 1_000, 10_000, 1_234_567];
        assert_eq!(numbers.map(grouped), ["0", "999", "1,000", "10,000", "1,234,567"]);
    }
}
