//! Two servers on one PostgreSQL and one Redis while all four die, stop, lose each other and are told wrong times.
//!
//! What clients were told is compared with what the servers show afterwards, by a checker that knows nothing
//! else (`checker`): promises 1 to 7 and the hash chain.
//!
//! `SUNABA_CLUSTER_KILLS` (12 unless told) and `SUNABA_CLUSTER_SECONDS` (20) bound the storm,
//! `SUNABA_RECONNECTS` (300) the resumes, `SUNABA_AWAY_SECONDS` (20) and `SUNABA_AWAY_SANDBOXES` (4) the absence of
//! both servers. `SUNABA_SEED` repeats the choices of a run.

mod away;
mod checker;
mod clock;
mod door;
mod faults;
mod inbox;
mod reading;
mod reconnects;
mod runs;
mod storm;
mod watcher;
mod world;
mod writer;

/// A number that the environment may set.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The seed of this run.
fn seed() -> u64 {
    number("SUNABA_SEED").unwrap_or_else(|| rand::RngExt::random(&mut rand::rng()))
}
