//! Two servers on one PostgreSQL and one Redis while all four die, stop, are restarted, lose each other and are told
//! wrong times.
//!
//! What clients were told is compared with what the servers show afterwards, by a checker that knows nothing
//! else (`checker`). Of the design's promises it holds them to these:
//!
//! 1. An event of an outside worker that got its 200 is in the log, as it was sent and with the seq that was told.
//! 2. A repeated POST is stored once, and both servers publish it once. (On Redis it may come twice; nobody looks.)
//! 3. Every log is 1, 2, 3 … without a gap; subscribers over WebSocket (all, some sandboxes, some types) and one over SSE
//!    who come back to either server see every position of theirs once, in order.
//! 4. A message that got its 200 was given to the worker and is `consumed`; what was said to a real run that completed
//!    was read by its agent; every poll gives interrupts first.
//! 5. No task is seen with two living sandboxes, and no sandbox at two servers (looked at ten times a second); every
//!    attempt begins its agent once; a task is tried again only for a message that came after its end. That a
//!    superseded attempt can write nothing is the business of other suites: here none is superseded while it lives.
//! 6. Nothing stays in a transitional state, and nobody who is healthy is failed: not in the storm, not while both
//!    servers are away. That real silence is noticed is tested elsewhere.
//! 7. Afterwards no directory, process, mount, loop device or control group of a sandbox is left at either server, known
//!    to a row or not; and while one more runs, it is where its row says and nowhere else.
//! 12. The hash chain of every log.
//!
//! `SUNABA_CLUSTER_KILLS` (one whole deck of faults unless told) and `SUNABA_CLUSTER_SECONDS` (60) bound the storm, in
//! which every kind of fault comes once before any comes again;
//! `SUNABA_RECONNECTS` (300) the resumes, `SUNABA_AWAY_SECONDS` (20) and `SUNABA_AWAY_SANDBOXES` (4) the absence of
//! both servers. `SUNABA_SEED` repeats the choices of a run.

mod away;
mod checker;
mod clients;
mod clock;
mod deck;
mod door;
mod faults;
mod inbox;
mod places;
mod reading;
mod reconnects;
mod runs;
mod storm;
mod stream;
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
