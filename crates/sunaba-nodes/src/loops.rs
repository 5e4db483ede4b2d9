//! How the loops of a node fare, for people who look whether it is well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// One loop, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopReport {
    /// How long ago it last went round.
    pub age_ms: u64,
    /// How long that round took.
    pub took_ms: u64,
    /// How many rounds failed since the last that did not.
    pub failures: u64,
    /// How many rounds failed since this process started: an outage is seen here also when it is over.
    pub failures_total: u64,
}

#[derive(Debug)]
struct Round {
    at: Instant,
    took: Duration,
    failures: u64,
    failures_total: u64,
}

/// What the loops of this node said of themselves.
#[derive(Debug, Clone, Default)]
pub struct Loops(Arc<Mutex<BTreeMap<&'static str, Round>>>);

impl Loops {
    /// A loop went round since `began`.
    pub fn round(&self, name: &'static str, began: Instant, went_well: bool) {
        let mut rounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (failures, total) =
            rounds.get(name).map_or((0, 0), |round| (round.failures, round.failures_total));
        let failures = if went_well { 0 } else { failures + 1 };
        let failures_total = total + u64::from(!went_well);
        let at = Instant::now();
        rounds.insert(name, Round { at, took: at - began, failures, failures_total });
    }

    /// All of them.
    pub fn report(&self) -> BTreeMap<String, LoopReport> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let rounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = rounds.iter().map(|(name, round)| {
            let report = LoopReport {
                age_ms: millis(round.at.elapsed()),
                took_ms: millis(round.took),
                failures: round.failures,
                failures_total: round.failures_total,
            };
            ((*name).to_owned(), report)
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_until_a_round_goes_well() {
        let loops = Loops::default();
        let failures = |loops: &Loops| loops.report()["look"].failures;
        for expected in 1..=2 {
            loops.round("look", Instant::now(), false);
            assert_eq!(failures(&loops), expected);
        }
        loops.round("look", Instant::now(), true);
        assert_eq!(failures(&loops), 0);
        assert_eq!(loops.report()["look"].failures_total, 2, "what went wrong is still to be seen");
        assert_eq!(loops.report().len(), 1);
    }
}
