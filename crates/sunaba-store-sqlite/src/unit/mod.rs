//! One unit of work: the writing connection and everything the open
//! transaction has changed so far.
//!
//! What the writer knows about sandboxes and tasks is kept between
//! transactions (only it writes) and forgotten as a whole when one is undone.
//! Rows that come in numbers (events, feed, counters) are collected in memory
//! and written by [`Unit::flush`], one statement a table.

mod bulk;
mod change;
mod flush;
mod ingest;
mod loaded;
mod record;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, Row as _, SqliteConnection};
use sunaba_types::{Clock, SandboxId, TaskId, Timestamp};

pub(crate) use change::EXTERNAL;
pub(crate) use loaded::LoadedSandbox;
pub(crate) use record::Notice;

use ingest::Known;
use loaded::LoadedTask;
use record::{EventRow, FeedRow};
use sunaba_store_sql::facts::Turn;

/// More known sandboxes than this are forgotten together and read again when needed.
const KNOWN_SANDBOXES: usize = 4096;

/// See the module.
pub(crate) struct Unit {
    connection: Option<SqliteConnection>,
    clock: Arc<dyn Clock>,
    now: Timestamp,
    state: State,
}

/// What is undone together with the transaction.
#[derive(Debug, Clone, Default)]
struct State {
    sandboxes: HashMap<SandboxId, LoadedSandbox>,
    tasks: HashMap<TaskId, LoadedTask>,
    /// Events of this transaction by id, and earlier ones whose id is used again.
    known: HashMap<(SandboxId, String), Known>,
    events: Vec<EventRow>,
    feed: Vec<FeedRow>,
    turns: BTreeMap<(SandboxId, i64), Turn>,
    noisy_opened: Vec<(SandboxId, String)>,
    noisy_closed: Vec<(SandboxId, String)>,
    ended: BTreeSet<SandboxId>,
    /// The feed's last position, once it was read.
    position: Option<i64>,
}

impl Unit {
    pub(crate) fn new(connection: SqliteConnection, clock: Arc<dyn Clock>) -> Self {
        let now = clock.now();
        Self { connection: Some(connection), clock, now, state: State::default() }
    }

    /// The open transaction's connection.
    pub(crate) fn sql(&mut self) -> &mut SqliteConnection {
        self.connection.as_mut().expect("a transaction is only open on a connection")
    }

    /// The moment of this transaction.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Opens a transaction, on a new connection if the old one became unusable.
    pub(crate) async fn begin(&mut self, connect: &SqliteConnectOptions) -> Result<(), sqlx::Error> {
        if self.connection.is_none() {
            self.connection = Some(crate::open::reconnect(connect).await?);
        }
        if self.state.sandboxes.len() > KNOWN_SANDBOXES {
            self.state = State::default();
        }
        sqlx::query("BEGIN IMMEDIATE").execute(self.sql()).await?;
        self.now = self.clock.now();
        self.state.known.clear();
        Ok(())
    }

    /// Makes everything flushed durable; gives the feed's last position.
    pub(crate) async fn commit(&mut self) -> Result<i64, sqlx::Error> {
        sqlx::query("COMMIT").execute(self.sql()).await?;
        Ok(self.state.position.unwrap_or_default())
    }

    /// Undoes the transaction and forgets what was known.
    pub(crate) async fn rollback(&mut self) {
        self.state = State::default();
        let Some(connection) = self.connection.as_mut() else { return };
        // SQLite may have undone it already; then there is nothing to roll back.
        let undone = sqlx::query("ROLLBACK").execute(&mut *connection).await;
        let idle = match undone {
            Ok(_) => true,
            Err(error) => error.to_string().contains("no transaction is active"),
        };
        if !idle {
            self.connection = None;
        }
    }

    /// Copies the whole write-ahead log into the database, so that it starts anew; false if a
    /// reader was in the way for too long. Not inside a transaction.
    pub(crate) async fn restart_log(&mut self) -> Result<bool, sqlx::Error> {
        let Some(connection) = self.connection.as_mut() else { return Ok(false) };
        let row = sqlx::query("PRAGMA wal_checkpoint(RESTART)").fetch_one(connection).await?;
        Ok(row.try_get::<i64, _>(0)? == 0)
    }

    /// Sets a point to come back to.
    pub(crate) async fn save(&mut self) -> Result<Saved, sqlx::Error> {
        sqlx::query("SAVEPOINT piece").execute(self.sql()).await?;
        Ok(Saved(Box::new(self.state.clone())))
    }

    /// Keeps what was done since the point.
    pub(crate) async fn release(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query("RELEASE piece").execute(self.sql()).await?;
        Ok(())
    }

    /// Undoes what was done since the point.
    pub(crate) async fn restore(&mut self, saved: Saved) -> Result<(), sqlx::Error> {
        sqlx::query("ROLLBACK TO piece").execute(self.sql()).await?;
        self.release().await?;
        self.state = *saved.0;
        Ok(())
    }

    pub(crate) async fn close(self) {
        if let Some(connection) = self.connection
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "closing the database");
        }
    }
}

/// A point in a transaction to come back to.
#[derive(Debug)]
pub(crate) struct Saved(Box<State>);
