//! Sandboxes that lately sent something again.
//!
//! Event ids count as new until the database says otherwise, and then a whole transaction is done twice. Who repeats
//! something (after a lost answer, or on purpose) often does so more than once: their ids are looked up beforehand
//! for a while, so that nobody else pays for it again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sunaba_types::SandboxId;

const REMEMBERED_FOR: Duration = Duration::from_secs(60);
/// How many are remembered; more than this at once are forgotten together.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Repeaters(Mutex<HashMap<SandboxId, Instant>>);

impl Repeaters {
    pub(super) fn note(&self, id: &SandboxId) {
        let mut held = self.held();
        if held.len() >= MOST {
            held.retain(|_, noted| noted.elapsed() < REMEMBERED_FOR);
        }
        if held.len() >= MOST {
            held.clear();
        }
        held.insert(id.clone(), Instant::now());
    }

    pub(super) fn has(&self, id: &SandboxId) -> bool {
        self.held().get(id).is_some_and(|noted| noted.elapsed() < REMEMBERED_FOR)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<SandboxId, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_remembered_and_not_without_end() {
        let repeaters = Repeaters::default();
        let (one, other) = (SandboxId::generate(), SandboxId::generate());
        repeaters.note(&one);
        assert!(repeaters.has(&one) && !repeaters.has(&other));
        for _ in 0..=MOST {
            repeaters.note(&SandboxId::generate());
        }
        assert!(repeaters.held().len() <= MOST);
    }
}
