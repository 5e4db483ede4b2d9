//! One unit of work: a transaction and everything it has changed so far.
//!
//! What it works on is locked and read first, all at once and in one order
//! ([`Unit::prepare`]); after that nothing else is waited for but the feed's
//! counter at the end. Rows that come in numbers (events, feed, counters) are
//! collected in memory and written by [`Unit::flush`], one statement a table.

mod change;
mod flush;
mod flush_rows;
mod ingest;
mod needs;
mod prepare;

use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, Postgres, Row as _};
use sunaba_store_sql::draft::Draft;
use sunaba_types::{Clock, Timestamp};
use tokio::time::timeout;

pub(crate) use needs::Needs;
pub(crate) use prepare::Prepared;

use crate::writer::Context;

/// Each statement sees what was committed before it: what is read after a lock came is the present state.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
                     SELECT current_setting('synchronous_commit'), current_setting('fsync')";

/// How long a server may take for something that waits for nobody.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct Unit {
    connection: PoolConnection<Postgres>,
    clock: Arc<dyn Clock>,
    /// What is undone together with the transaction.
    pub(crate) draft: Draft,
    /// Somebody wants to know whether the counter can be written.
    probed: bool,
    /// Whether the transaction has neither been committed nor undone.
    open: bool,
}

/// Why there is no transaction.
#[derive(Debug)]
pub(crate) enum BeginError {
    /// The connection was no longer good.
    Stale(sqlx::Error),
    /// There is no connection to be had.
    Away(sqlx::Error),
    /// The session would acknowledge before the disk has it.
    NotDurable(&'static str),
}

impl Unit {
    /// Opens a transaction.
    pub(crate) async fn begin(context: &Context) -> Result<Self, BeginError> {
        let mut connection = context.pool.acquire().await.map_err(BeginError::Away)?;
        let begun = timeout(ANSWERS_WITHIN, sqlx::raw_sql(BEGIN).fetch_all(&mut *connection)).await;
        let rows = match begun {
            Ok(Ok(rows)) => rows,
            Ok(Err(error)) => {
                connection.close_on_drop();
                return Err(BeginError::Stale(error));
            }
            Err(_) => {
                connection.close_on_drop();
                return Err(BeginError::Away(sqlx::Error::PoolTimedOut));
            }
        };
        let setting = |at: usize| rows.first().and_then(|row| row.try_get::<String, _>(at).ok());
        let (commit, fsync) = (setting(0).unwrap_or_default(), setting(1).unwrap_or_default());
        if let Some(setting) = context.durability.refuses(&commit, &fsync) {
            connection.close_on_drop();
            return Err(BeginError::NotDurable(setting));
        }
        let clock = Arc::clone(&context.clock);
        let draft = Draft::new(clock.now());
        Ok(Self { connection, clock, draft, probed: false, open: true })
    }

    /// The transaction's connection.
    pub(crate) fn sql(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// The moment of this transaction.
    pub(crate) fn now(&self) -> Timestamp {
        self.draft.now
    }

    /// Makes everything flushed durable; gives the feed's last position if it moved.
    pub(crate) async fn commit(&mut self) -> Result<Option<i64>, sqlx::Error> {
        sqlx::raw_sql("COMMIT").execute(self.sql()).await?;
        self.open = false;
        Ok(self.draft.position)
    }

    /// Undoes the transaction.
    pub(crate) async fn rollback(&mut self) {
        self.forget();
        let undone = sqlx::raw_sql("ROLLBACK").execute(self.sql());
        if matches!(timeout(ANSWERS_WITHIN, undone).await, Ok(Ok(_))) {
            self.open = false;
        }
    }

    /// Undoes the transaction and opens another one.
    pub(crate) async fn restart(&mut self) -> Result<(), sqlx::Error> {
        self.forget();
        sqlx::raw_sql("ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED").execute(self.sql()).await?;
        Ok(())
    }

    fn forget(&mut self) {
        self.draft = Draft::new(self.draft.now);
        self.probed = false;
    }

    /// Sets a point to come back to.
    pub(crate) async fn save(&mut self) -> Result<Saved, sqlx::Error> {
        sqlx::raw_sql("SAVEPOINT piece").execute(self.sql()).await?;
        Ok(Saved { draft: Box::new(self.draft.clone()), probed: self.probed })
    }

    /// Keeps what was done since the point.
    pub(crate) async fn release(&mut self) -> Result<(), sqlx::Error> {
        sqlx::raw_sql("RELEASE SAVEPOINT piece").execute(self.sql()).await?;
        Ok(())
    }

    /// Undoes what was done since the point; the locks from before it stay.
    pub(crate) async fn restore(&mut self, saved: Saved) -> Result<(), sqlx::Error> {
        sqlx::raw_sql("ROLLBACK TO SAVEPOINT piece; RELEASE SAVEPOINT piece").execute(self.sql()).await?;
        self.draft = *saved.draft;
        self.probed = saved.probed;
        Ok(())
    }

    /// Writes the counter at the end, whether or not something is published.
    pub(crate) fn probe(&mut self) {
        self.probed = true;
    }
}

/// A connection with an open transaction must not be used for the next one, whatever went wrong, a panic too:
/// it is closed, and the server undoes what was not committed.
impl Drop for Unit {
    fn drop(&mut self) {
        if self.open {
            self.connection.close_on_drop();
        }
    }
}

/// A point in a transaction to come back to.
#[derive(Debug)]
pub(crate) struct Saved {
    draft: Box<Draft>,
    probed: bool,
}
