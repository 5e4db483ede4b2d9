//! Which fault comes next: chance decides, but none is left out for long.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::faults::Fault;

/// Every kind, the cheap and frequent ones more often.
const DECK: [(Fault, usize); 17] = [
    (Fault::KillServer, 12),
    (Fault::KillBothServers, 3),
    (Fault::KillPostgres, 2),
    (Fault::KillRedis, 2),
    (Fault::KillPostgresAndServer, 1),
    (Fault::RollingRestart, 1),
    (Fault::StopServer, 1),
    (Fault::StopPostgres, 1),
    (Fault::StopRedis, 1),
    (Fault::CutFromPostgres, 1),
    (Fault::HoldFromPostgres, 1),
    (Fault::SlowPostgres, 1),
    (Fault::CutFromRedis, 1),
    (Fault::HoldFromRedis, 1),
    (Fault::CutBetweenServers, 2),
    (Fault::HoldBetweenServers, 2),
    (Fault::JumpOfTheClock, 2),
];

/// Deals faults: one of every kind, then the rest of the deck, each in an order that the seed decides; then anew.
pub(super) struct Deck {
    kinds: Vec<(Fault, usize)>,
    /// The last one is dealt next.
    left: Vec<Fault>,
}

impl Deck {
    /// All faults, or all but those that cannot be made here.
    pub(super) fn new(without: &[Fault]) -> Self {
        let kinds = DECK.into_iter().filter(|(fault, _)| !without.contains(fault)).collect();
        Self { kinds, left: Vec::new() }
    }

    pub(super) fn next(&mut self, random: &mut StdRng) -> Fault {
        if self.left.is_empty() {
            self.left.extend(self.kinds.iter().flat_map(|(fault, times)| vec![*fault; times - 1]));
            self.left.shuffle(random);
            let mut first: Vec<Fault> = self.kinds().collect();
            first.shuffle(random);
            self.left.extend(first);
        }
        self.left.pop().expect("it was filled")
    }

    /// Every kind that is in it.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Fault> {
        self.kinds.iter().map(|(fault, _)| *fault)
    }

    /// How many programs the whole of it kills.
    pub(super) fn kills(&self) -> u64 {
        self.kinds.iter().map(|(fault, times)| fault.kills() * *times as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn every_kind_comes_before_any_comes_again() {
        for seed in 0..20 {
            let mut random = StdRng::seed_from_u64(seed);
            let mut deck = Deck::new(&[]);
            let kinds: BTreeSet<Fault> = deck.kinds().collect();
            let first: BTreeSet<Fault> = (0..kinds.len()).map(|_| deck.next(&mut random)).collect();
            assert_eq!(first, kinds);
            let size: usize = DECK.iter().map(|(_, times)| times).sum();
            let rest: Vec<Fault> = (kinds.len()..size).map(|_| deck.next(&mut random)).collect();
            let kills: u64 = first.iter().chain(&rest).map(|fault| fault.kills()).sum();
            assert_eq!(kills, deck.kills());
            assert!(deck.left.is_empty(), "it was dealt to its end");
        }
    }

    #[test]
    fn what_cannot_be_made_is_not_dealt() {
        let mut random = StdRng::seed_from_u64(1);
        let mut deck = Deck::new(&[Fault::JumpOfTheClock]);
        assert!((0..100).all(|_| deck.next(&mut random) != Fault::JumpOfTheClock));
    }
}
