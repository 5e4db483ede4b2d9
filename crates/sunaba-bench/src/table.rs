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
#[derive(Debug, Default)]
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
