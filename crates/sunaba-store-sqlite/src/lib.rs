//! The embedded store: all SQLite SQL, one writer, many readers.
//!
//! Every write goes through one task that owns the only writing connection. It
//! gathers what waits, commits it as one transaction and answers afterwards:
//! the latency of one commit, the throughput of a batch. Reads go to a pool of
//! read-only connections and are never held up by a write (WAL).
//!
//! `synchronous=FULL`: what was answered survives the machine losing power.

mod events;
mod fault;
mod feed;
mod messages;
mod nodes;
mod open;
mod page;
mod questions;
mod registry;
mod rows;
mod secrets;
mod sessions;
mod settings;
mod spending;
mod standing;
mod tokens;
mod transfer;
mod unit;
mod writer;

pub use open::{OpenError, Options, SqliteStore};
pub use transfer::Target;
