//! One unit of work: a transaction and everything it has changed so far.
//!
//! What it works on is locked and read first, all at once and in one order
//! ([`Unit::prepare`]); after that nothing else is waited for but the feed's
//! counter at the end. Rows that come in numbers (events, feed, counters) are
//! collected in memory and written by [`Unit::flush`], many at a time.

mod change;
mod flush;
mod flush_rows;
mod ingest;
mod load;
mod needs;
mod plain;
mod prepare;
mod recent;
mod written;

use std::sync::Arc;
use std::time::Duration;

use sqlx::{PgConnection, Row as _};
use sunaba_store::{AppendOutcome, Error, FeedEntry, Outdated, Writer};
use sunaba_store_sql::draft::Draft;
use sunaba_store_sql::writer::Transaction;
use sunaba_types::{Clock, NewEvent, SandboxId, Timestamp};
use tokio::time::timeout;

pub(crate) use needs::Needs;
pub(crate) use plain::{Plain, Unwritten};
pub(crate) use prepare::Prepared;
pub(crate) use recent::Recent;

use crate::Durability;
use crate::fault::{Trouble, told, trouble};
use crate::lines::Line;
use crate::writer::Context;

/// Each statement sees what was committed before it: what is read after a lock came is the present state.
/// Having looked at the layout it keeps others from locking that table: a migration that takes something away
/// locks it, and so comes between two transactions and never into one.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
                     SELECT current_setting('synchronous_commit'), current_setting('fsync'),
                            (SELECT usable_from FROM layout)";

/// How long a server may take for something that waits for nobody.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct Unit {
    line: Line,
    clock: Arc<dyn Clock>,
    /// What is undone together with the transaction.
    pub(crate) draft: Draft,
    /// Somebody wants to know whether the counter can be written.
    probed: bool,
    /// Whether the transaction has neither been committed nor undone.
    open: bool,
    terms: Terms,
    recent: Arc<Recent>,
    /// Under which name its commit is told.
    teller: Arc<str>,
    /// Which transaction wrote the sandboxes' rows that were read.
    versions: recent::Versions,
}

/// What has to hold for a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) durability: Durability,
    /// The newest layout that this program knows.
    pub(crate) known_layout: i64,
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
    /// A newer program has taken something away that this one needs.
    Outdated(Outdated),
}

impl Unit {
    /// Opens a transaction.
    pub(crate) async fn begin(context: &Context) -> Result<Self, BeginError> {
        let mut line = context.lines.take().await.map_err(BeginError::Away)?;
        context.terms.begin(&mut line).await?;
        let clock = Arc::clone(&context.clock);
        let draft = Draft::new(clock.now(), context.legacy_silence_seconds);
        Ok(Self {
            line,
            clock,
            draft,
            probed: false,
            open: true,
            terms: context.terms,
            recent: Arc::clone(&context.recent),
            teller: Arc::clone(&context.teller),
            versions: recent::Versions::new(),
        })
    }

    /// The transaction's connection.
    pub(crate) fn sql(&mut self) -> &mut PgConnection {
        &mut self.line
    }

    /// The moment of this transaction.
    pub(crate) fn now(&self) -> Timestamp {
        self.draft.now
    }

    /// Makes everything flushed durable; gives what was published, in order.
    pub(crate) async fn commit(&mut self) -> Result<Vec<Arc<FeedEntry>>, sqlx::Error> {
        sqlx::raw_sql("COMMIT").execute(self.sql()).await?;
        self.open = false;
        self.recent.keep(&mut self.draft, &self.versions);
        Ok(std::mem::take(&mut self.draft.published))
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
    pub(crate) async fn restart(&mut self) -> Result<(), BeginError> {
        self.forget();
        sqlx::raw_sql("ROLLBACK").execute(self.sql()).await.map_err(BeginError::Stale)?;
        let terms = self.terms;
        terms.begin(self.sql()).await
    }

    fn forget(&mut self) {
        self.draft.forget();
        self.versions.clear();
        self.probed = false;
    }

    /// Writes the counter at the end, whether or not something is published.
    pub(crate) fn probe(&mut self) {
        self.probed = true;
    }
}

impl Terms {
    /// Opens a transaction on a connection. If that is refused one may be open, and the connection has to be closed.
    async fn begin(self, connection: &mut PgConnection) -> Result<(), BeginError> {
        let begun = timeout(ANSWERS_WITHIN, sqlx::raw_sql(BEGIN).fetch_all(connection)).await;
        let rows = match begun {
            Ok(rows) => rows.map_err(BeginError::Stale)?,
            Err(_) => return Err(BeginError::Away(sqlx::Error::PoolTimedOut)),
        };
        let row = rows.first().ok_or(BeginError::Stale(sqlx::Error::RowNotFound))?;
        let setting = |at: usize| row.try_get::<String, _>(at).unwrap_or_default();
        if let Some(setting) = self.durability.refuses(&setting(0), &setting(1)) {
            return Err(BeginError::NotDurable(setting));
        }
        let (needed, known) = (row.try_get(2).map_err(BeginError::Stale)?, self.known_layout);
        if needed > known { Err(BeginError::Outdated(Outdated { needed, known })) } else { Ok(()) }
    }
}

impl Transaction for Unit {
    type Needs = Needs;
    type Saved = Saved;

    fn told(error: sqlx::Error) -> Error {
        told(error)
    }

    fn is_of_a_statement(error: &sqlx::Error) -> bool {
        trouble(error) == Trouble::Statement
    }

    async fn recall_ids(&mut self, _events: &[(&SandboxId, &[NewEvent])]) -> Result<(), sqlx::Error> {
        // Whatever is to be known is known since the locks were taken.
        Ok(())
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
        sqlx::raw_sql("SAVEPOINT piece").execute(self.sql()).await?;
        Ok(Saved { draft: Box::new(self.draft.clone()), probed: self.probed })
    }

    async fn release(&mut self) -> Result<(), sqlx::Error> {
        sqlx::raw_sql("RELEASE SAVEPOINT piece").execute(self.sql()).await?;
        Ok(())
    }

    async fn restore(&mut self, saved: Saved) -> Result<(), sqlx::Error> {
        sqlx::raw_sql("ROLLBACK TO SAVEPOINT piece; RELEASE SAVEPOINT piece").execute(self.sql()).await?;
        self.draft = *saved.draft;
        self.probed = saved.probed;
        Ok(())
    }
}

/// A connection with an open transaction must not be used for the next one, whatever went wrong, a panic too:
/// it is closed, and the server undoes what was not committed.
impl Drop for Unit {
    fn drop(&mut self) {
        if !self.open {
            self.line.rest();
        }
    }
}

/// A point in a transaction to come back to.
#[derive(Debug)]
pub(crate) struct Saved {
    draft: Box<Draft>,
    probed: bool,
}
