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

use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, Row as _, SqliteConnection};
use sunaba_store::{AppendOutcome, Error, FeedEntry, Writer};
use sunaba_store_sql::draft::Draft;
use sunaba_store_sql::writer::Transaction;
use sunaba_types::{Clock, NewEvent, SandboxId, Timestamp};

use crate::fault::{is_outage, told};

/// More known sandboxes than this are forgotten together and read again when needed.
const KNOWN_SANDBOXES: usize = 4096;

/// See the module.
pub(crate) struct Unit {
    connection: Option<SqliteConnection>,
    clock: Arc<dyn Clock>,
    /// What is undone together with the transaction.
    pub(crate) draft: Draft,
}

impl Unit {
    pub(crate) fn new(
        connection: SqliteConnection,
        clock: Arc<dyn Clock>,
        legacy_silence_seconds: i64,
    ) -> Self {
        let draft = Draft::new(clock.now(), legacy_silence_seconds);
        Self { connection: Some(connection), clock, draft }
    }

    /// The open transaction's connection.
    pub(crate) fn sql(&mut self) -> &mut SqliteConnection {
        self.connection.as_mut().expect("a transaction is only open on a connection")
    }

    /// The moment of this transaction.
    pub(crate) fn now(&self) -> Timestamp {
        self.draft.now
    }

    /// Opens a transaction, on a new connection if the old one became unusable.
    pub(crate) async fn begin(&mut self, connect: &SqliteConnectOptions) -> Result<(), sqlx::Error> {
        if self.connection.is_none() {
            self.connection = Some(crate::open::reconnect(connect).await?);
        }
        if self.draft.sandboxes.len() > KNOWN_SANDBOXES {
            self.draft.forget();
        }
        sqlx::query("BEGIN IMMEDIATE").execute(self.sql()).await?;
        self.draft.now = self.clock.now();
        self.draft.known.clear();
        Ok(())
    }

    /// Makes everything flushed durable; gives what was published, in order.
    pub(crate) async fn commit(&mut self) -> Result<Vec<Arc<FeedEntry>>, sqlx::Error> {
        sqlx::query("COMMIT").execute(self.sql()).await?;
        Ok(std::mem::take(&mut self.draft.published))
    }

    /// Undoes the transaction and forgets what was known.
    pub(crate) async fn rollback(&mut self) {
        self.draft.forget();
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

    pub(crate) async fn close(self) {
        if let Some(connection) = self.connection
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "closing the database");
        }
    }
}

impl Transaction for Unit {
    type Needs = ();
    type Saved = Saved;

    fn told(error: sqlx::Error) -> Error {
        told(error)
    }

    fn is_of_a_statement(error: &sqlx::Error) -> bool {
        !is_outage(error)
    }

    async fn recall_ids(&mut self, events: &[(&SandboxId, &[NewEvent])]) -> Result<(), sqlx::Error> {
        self.recall_events(events).await
    }

    async fn ingest(
        &mut self,
        id: &SandboxId,
        writer: Writer,
        event: &NewEvent,
    ) -> Result<AppendOutcome, sqlx::Error> {
        self.ingest_event(id, writer, event).await
    }

    async fn flush(&mut self) -> Result<(), sqlx::Error> {
        self.flush_collected().await
    }

    async fn save(&mut self) -> Result<Saved, sqlx::Error> {
        sqlx::query("SAVEPOINT piece").execute(self.sql()).await?;
        Ok(Saved(Box::new(self.draft.clone())))
    }

    async fn release(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query("RELEASE piece").execute(self.sql()).await?;
        Ok(())
    }

    async fn restore(&mut self, saved: Saved) -> Result<(), sqlx::Error> {
        sqlx::query("ROLLBACK TO piece").execute(self.sql()).await?;
        self.release().await?;
        self.draft = *saved.0;
        Ok(())
    }
}

/// A point in a transaction to come back to.
#[derive(Debug)]
pub(crate) struct Saved(Box<Draft>);
