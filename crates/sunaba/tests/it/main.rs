//! The program as its users meet it: the built binary, real processes, real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

mod config;
mod egress_question;
mod end_to_end;
#[path = "../shared/leavings.rs"]
mod leavings;
mod orderly_end;
mod refusals;
mod sandboxes;
mod serve;
mod setup;
mod support;
mod tokens;
