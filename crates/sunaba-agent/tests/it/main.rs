//! The runtimes against a scripted model: everything but the model's words is real.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on is a test that failed")]

mod acp;
mod acp_gives_up;
mod alone;
mod claude;
mod claude_control;
mod claude_repository;
mod compaction;
mod conformance;
mod dialect;
mod failures;
mod fake_model;
mod gemini_repository;
mod harness;
mod helpers;
mod interrupts;
mod messages;
mod permissions;
mod place;
mod repository;
mod requests;
mod sessions;
mod tools;
