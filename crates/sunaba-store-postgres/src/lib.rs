//! The store of several servers: all PostgreSQL SQL.
//!
//! Every write of a server goes through one writer. It gathers what waits, commits it as one transaction and
//! answers afterwards; a few such transactions may be under way at once, each on a connection of its own. What
//! must hold between servers is decided by the database alone, and whoever changes something holds its lock. What is
//! remembered from one transaction to the next spares only questions: the entries that this server published last,
//! which sandboxes lately sent something again, and sandboxes as they were left. Events that cause nothing are written
//! by one statement from what is remembered (`append_rows`, in the migrations). It compares the log's last hash, the
//! task's attempt and the task's state. That is enough because nothing else of a sandbox's row on which such an event
//! depends ever changes without an event in its log: whoever changes that rule changes the statement too.
//!
//! Locks are taken in one order, so that nobody waits in a circle: names that are about to be made, logs of
//! sandboxes by id, tasks by id, projects by id, and at the very end the feed's counter, which is held until
//! the commit. Therefore positions of the feed become visible in their order.
//!
//! A server or session that would acknowledge before the disk has it (`fsync`, `synchronous_commit`) is refused.

mod events;
mod fault;
mod feed;
mod lines;
mod listen;
mod messages;
mod nodes;
mod open;
mod others;
mod page;
mod questions;
mod refusal;
mod registry;
mod rows;
mod secrets;
pub mod session;
mod sessions;
mod settings;
mod spending;
mod standing;
mod tokens;
mod transfer;
mod unit;
mod writer;

pub use open::{Durability, Options, PostgresStore};
pub use refusal::OpenError;
pub use transfer::Target;
