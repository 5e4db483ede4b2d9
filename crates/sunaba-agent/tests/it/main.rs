//! The runtimes against a scripted Messages server: everything but the model's words is real.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on is a test that failed")]

mod claude;
mod compaction;
mod conformance;
mod failures;
mod fake_model;
mod harness;
mod helpers;
mod interrupts;
mod messages;
mod permissions;
mod repository;
mod requests;
mod sessions;
mod tools;
