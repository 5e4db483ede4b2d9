//! How long to wait before the next try.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const MOST: Duration = Duration::from_secs(5);

/// Doubles with each failure, up to a bound. A part of it is left to chance, so that nodes which lost the same
/// Redis at once do not come back at once.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after one more failure; `chance` is from 0 to 1.
    pub(crate) fn next(&mut self, chance: f64) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(16)).min(MOST);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }

    /// It went well; the next failure is a first one.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_begin_anew() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(1.0), FIRST);
        assert_eq!(backoff.next(0.0), FIRST);
        for _ in 0..100 {
            backoff.next(1.0);
        }
        assert_eq!(backoff.next(1.0), MOST);
        backoff.reset();
        assert_eq!(backoff.next(1.0), FIRST);
    }
}
