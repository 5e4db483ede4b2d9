//! The native runtime against a scripted Messages server: everything but the model's words is real.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on is a test that failed")]

mod compaction;
mod failures;
mod fake_model;
mod harness;
mod interrupts;
mod messages;
mod permissions;
mod requests;
mod sessions;
mod tools;
