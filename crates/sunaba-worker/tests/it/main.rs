//! The real program against real sockets, real files and real bubblewrap.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod adoption;
mod bridge;
mod guest;
mod isolation;
mod lifecycle;
mod server;
mod support;
mod work;
mod work_in_sandbox;
