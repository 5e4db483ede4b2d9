//! The whole of a store, table by table: how everything is moved into another one, and how it is kept.
//!
//! What is moved is neutral ([`TABLES`]): each store maps it to its own layout, and no SQL leaves it. A store
//! is read in one snapshot ([`Source`]) and written in order ([`Target`]): rows and how far they reach are one
//! transaction, so that a move that was broken off goes on where it was. Until [`Target::finish`] the target is
//! marked, and no server opens it.
//!
//! Nothing is believed: after the copy every row is read from both sides and compared by SHA-256 ([`Sums`]),
//! and every log's hash chain is walked in the target, through the port that a server uses.

mod cell;
mod copy;
mod pace;
mod tables;
mod verify;

use std::sync::Arc;

use async_trait::async_trait;

pub use cell::{Cell, Row, decode, encode};
pub use copy::{Step, check_and_finish, copy, copy_and_verify, identity};
pub use pace::Pace;
pub use tables::{Column, Kind, TABLES, Table};
pub use verify::{Sums, TableSum, Verified, chains, verify};

use crate::{Error, Result, Store};

/// Most rows that are read at once.
pub const BATCH_ROWS: usize = 1000;

/// A store as it was at one moment.
#[async_trait]
pub trait Source: Send {
    /// How many rows a table has.
    async fn count(&mut self, table: &'static Table) -> Result<i64>;

    /// The next rows after a key, in the order of the key; none at the end. Bounded by [`BATCH_ROWS`] and by
    /// [`crate::PAGE_BYTES`].
    async fn batch(&mut self, table: &'static Table, after: Option<&[Cell]>) -> Result<Vec<Row>>;

    /// The last position of the feed.
    async fn feed_head(&mut self) -> Result<i64>;
}

/// How far an earlier move came.
#[derive(Debug, Clone, PartialEq)]
pub struct Reached {
    /// The table that was being written; those before it are complete.
    pub table: &'static Table,
    /// The key of its last row that is in the target.
    pub key: Vec<Cell>,
}

impl Reached {
    /// Reads what a target has noted: a table's name and the key as a line.
    pub fn read(table: &str, key: &str) -> Result<Self> {
        let unknown =
            || Error::conflict("other_move", format!("an unfinished move is at an unknown {table}"));
        let table = Table::named(table).ok_or_else(unknown)?;
        Ok(Self { table, key: cell::decode_key(table, key)? })
    }
}

/// The table that marks a store as being moved into, and notes how far it is.
pub const MARK: &str = "unfinished_move";

/// There is something in the target.
pub fn not_empty(table: &str) -> Error {
    let detail = format!("the target is not empty ({table} has rows); name an empty database");
    Error::conflict("target_not_empty", detail)
}

/// Something else is, or was, being moved into the target.
pub fn other_move() -> Error {
    let detail = "an unfinished move into the target was from another source, or from this one before a server \
                  changed it; drop the target, make it anew and begin again";
    Error::conflict("other_move", detail)
}

/// An empty store that takes everything of another one.
#[async_trait]
pub trait Target: Send {
    /// Marks the target as being moved into. [`crate::Error::Conflict`] if there is anything in it
    /// (`target_not_empty`) or an unfinished move of something else (`other_move`). Gives how far an earlier
    /// move of the same source came.
    async fn begin(&mut self, source: &str) -> Result<Option<Reached>>;

    /// Writes rows of one table, and that the move has come so far, in one transaction.
    async fn write(&mut self, table: &'static Table, rows: Vec<Row>) -> Result<()>;

    /// Sets what follows from the rows: counters and the feed's position.
    async fn settle(&mut self, feed_head: i64) -> Result<()>;

    /// The store that has been written, for checks; it is still marked.
    async fn open(&mut self) -> Result<Arc<dyn Store>>;

    /// Takes the mark away: a server may open it now.
    async fn finish(&mut self) -> Result<()>;
}
