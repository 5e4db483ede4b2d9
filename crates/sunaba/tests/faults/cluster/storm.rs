//! The storm: clients work, everything dies, and afterwards the checker compares.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::clients::Clients;
use super::deck::Deck;
use super::faults::Fault;
use super::runs::last_words;
use super::world::World;
use super::{number, seed};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kills_restarts_stops_cuts_and_clock_jumps_of_two_nodes_break_no_promise() -> anyhow::Result<()> {
    let seed = seed();
    let time = Duration::from_secs(number("SUNABA_CLUSTER_SECONDS").unwrap_or(60));
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::start().await?;
    let mut struck = Struck::before(&world);
    let kills = number("SUNABA_CLUSTER_KILLS").unwrap_or(struck.deck.kills());
    println!("cluster: SUNABA_SEED={seed}, every fault and {kills} kills, in at most {time:?}");
    let door = world.door()?;
    let mut clients = Clients::start(&door, &world.data(), seed).await?;

    let began = Instant::now();
    while (struck.kills < kills || !struck.missing().is_empty()) && began.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(random.random_range(50..400))).await;
        let went = struck.next(&mut world, &mut random).await.and_then(|()| clients.still_work());
        went.with_context(|| format!("SUNABA_SEED={seed} {struck:?}{}", last_words(&world.data())))?;
    }
    let took = began.elapsed();
    let worth = clients.finish_and_check(&door, &world.data(), &mut random).await;
    let worth =
        worth.with_context(|| format!("SUNABA_SEED={seed} {struck:?}{}", last_words(&world.data())))?;
    println!("cluster: {struck:?} in {took:.0?}, SUNABA_SEED={seed}; {worth}: no promise broken");
    let missing = struck.missing();
    if took >= time && !missing.is_empty() {
        sunaba_testkit::left_out(&format!("{missing:?} in the storm"), "the time was up");
    } else {
        ensure!(missing.is_empty(), "{missing:?} never happened");
    }
    Ok(())
}

/// What has gone wrong so far.
struct Struck {
    deck: Deck,
    faults: BTreeMap<Fault, u64>,
    kills: u64,
}

impl std::fmt::Debug for Struck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} kills, {:?}", self.kills, self.faults)
    }
}

impl Struck {
    fn before(world: &World) -> Self {
        let without: &[Fault] = if world.has_a_clock_to_set() { &[] } else { &[Fault::JumpOfTheClock] };
        Self { deck: Deck::new(without), faults: BTreeMap::new(), kills: 0 }
    }

    async fn next(&mut self, world: &mut World, random: &mut StdRng) -> anyhow::Result<()> {
        let fault = self.deck.next(random);
        *self.faults.entry(fault).or_default() += 1;
        self.kills += fault.kills();
        fault.strike(world, random).await.with_context(|| format!("{fault:?}"))
    }

    /// The kinds that have not happened yet.
    fn missing(&self) -> Vec<Fault> {
        self.deck.kinds().filter(|fault| !self.faults.contains_key(fault)).collect()
    }
}
