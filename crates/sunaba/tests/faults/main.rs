//! Faults on purpose: the server is killed while it works, and what it
//! acknowledged is compared with what it kept.
//!
//! `SUNABA_KILLS` says how many kills (5 unless told), `SUNABA_SEED` repeats a run.

mod api;
mod cluster;
mod dockerd;
mod kill;
#[path = "../shared/leavings.rs"]
mod leavings;
mod run;
mod sandboxes;
mod server;
mod silence;
mod subscriber;
mod writer;
