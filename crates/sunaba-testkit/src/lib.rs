//! What tests share: a real server on a port of its own, clients for each kind of caller, and
//! readers of its live streams.
//!
//! Everything here is real: the SQLite store in a temporary directory, the
//! whole router, HTTP over loopback. Waiting is always for a condition, with a deadline.

mod app;
mod client;
mod docker;
mod keeper;
mod postgres;
mod redis;
mod sse;
mod wait;
mod ws;

pub use app::{Setup, TestApp, Work};
pub use client::{Answer, Client};
pub use docker::{TestDaemon, left_out, worker_program};
pub use postgres::Postgres;
pub use redis::Redis;
pub use sse::{SseEvent, SseReader};
pub use wait::{DEADLINE, eventually, within};
pub use ws::WsReader;
