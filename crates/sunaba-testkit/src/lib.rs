//! What tests share: a real server on a port of its own, clients for each kind of caller, and
//! readers of its live streams.
//!
//! Everything here is real: the store in a temporary directory or on PostgreSQL, the
//! whole router, HTTP over loopback. Waiting is always for a condition, with a deadline.

mod app;
mod client;
mod docker;
mod keeper;
mod occupied;
mod postgres;
mod proxy;
mod redis;
mod sse;
mod store;
mod wait;
mod ws;

pub use app::{Setup, TestApp, Work};
pub use client::{Answer, Client};
pub use docker::{TestDaemon, left_out, worker_program};
pub use occupied::Occupied;
pub use postgres::Postgres;
pub use proxy::Proxy;
pub use redis::Redis;
pub use sse::{SseEvent, SseReader};
pub use store::{TestStore, change_row, open_store, share_store, store_environment};
pub use wait::{DEADLINE, eventually, within};
pub use ws::WsReader;
