//! The only place that opens the database file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, SqliteConnection, SqlitePool};
use sunaba_store_sql::tail::Tail;
use sunaba_types::Clock;
use sunaba_types::limits::LEGACY_SILENCE_SECONDS;
use tokio::sync::watch;

use crate::unit::Unit;
use crate::writer::Writer;

static MIGRATIONS: Migrator = sqlx::migrate!();

/// How long the writer waits for another process to let go of the file.
const BUSY_TIMEOUT: Duration = Duration::from_millis(1000);
/// Opening may wait longer: another process may be migrating.
const OPEN_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How to open the store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The database file; it is made if it is missing.
    pub path: PathBuf,
    /// Tells the time of everything that is written.
    pub clock: Arc<dyn Clock>,
    /// How many read-only connections may be open at once.
    pub readers: u32,
    /// How long a sandbox may be silent that does not heartbeat continuously.
    pub legacy_silence_seconds: i64,
}

impl Options {
    /// The usual settings.
    pub fn new(path: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self { path: path.into(), clock, readers: 8, legacy_silence_seconds: LEGACY_SILENCE_SECONDS }
    }
}

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened as a database.
    #[error("cannot open the database {path}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        #[source]
        source: sqlx::Error,
    },
    /// The file's layout cannot be brought up to date.
    #[error("cannot bring the database {path} up to date")]
    Migrate {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: sqlx::migrate::MigrateError,
    },
    /// A newer program has changed the file's layout.
    #[error(
        "the database {path} has layout {found} and this program knows {known}: a newer program has changed it; \
         use that one, or restore a backup that was made before"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// A layout that this program does not know.
        found: i64,
        /// The newest layout that this program knows.
        known: i64,
    },
    /// Something is being moved into it.
    #[error(
        "a move into {path} is not finished: finish it with the same command that began it, or remove the file"
    )]
    Unfinished {
        /// The file.
        path: PathBuf,
    },
}

/// What becomes of a database into which a move is unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marked {
    /// It is not opened.
    Refused,
    /// It is, by the move itself.
    Taken,
}

/// The embedded store. Cheap to share; dropping the last one stops its writer.
pub struct SqliteStore {
    pub(crate) readers: SqlitePool,
    pub(crate) writer: Writer,
    pub(crate) hints: watch::Receiver<i64>,
    pub(crate) tail: Arc<Tail>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("feed_head", &*self.hints.borrow()).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the file, brings its layout up to date and starts the writer.
    pub async fn open(options: Options) -> Result<Arc<Self>, OpenError> {
        Self::open_even_if(Marked::Refused, options).await
    }

    pub(crate) async fn open_even_if(marked: Marked, options: Options) -> Result<Arc<Self>, OpenError> {
        let failed = |source| OpenError::Open { path: options.path.clone(), source };
        migrate(&options, marked).await?.close().await.map_err(failed)?;
        let connect = writing(&options);
        let mut connection = connect.connect().await.map_err(failed)?;
        let position = sqlx::query_scalar!("SELECT position FROM feed_counter")
            .fetch_one(&mut connection)
            .await
            .map_err(failed)?;
        let (hint, hints) = watch::channel(position);
        let unit = Unit::new(connection, Arc::clone(&options.clock), options.legacy_silence_seconds);
        let tail = Arc::<Tail>::default();
        let writer = Writer::start(connect, unit, hint, Arc::clone(&tail));
        let readers = SqlitePoolOptions::new()
            .max_connections(options.readers)
            .acquire_timeout(Duration::from_secs(2))
            .idle_timeout(Duration::from_secs(60))
            // Local connections do not go stale, and the check costs a thread hop a query.
            .test_before_acquire(false)
            .connect_lazy_with(reading(&options));
        Ok(Arc::new(Self { readers, writer, hints, tail, clock: options.clock }))
    }
}

/// A connection that a move writes with.
pub(crate) async fn connect_for_move(options: &Options) -> Result<SqliteConnection, OpenError> {
    migrate(options, Marked::Taken).await
}

/// Whether something is being moved into this database.
pub(crate) async fn is_marked(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1)")
        .bind(sunaba_store::transfer::MARK)
        .fetch_one(connection)
        .await
}

async fn migrate(options: &Options, marked: Marked) -> Result<SqliteConnection, OpenError> {
    let failed = |source| OpenError::Open { path: options.path.clone(), source };
    let mut connection = writing(options).busy_timeout(OPEN_BUSY_TIMEOUT).connect().await.map_err(failed)?;
    if marked == Marked::Refused && is_marked(&mut connection).await.map_err(failed)? {
        return Err(OpenError::Unfinished { path: options.path.clone() });
    }
    MIGRATIONS
        .run_direct(None, &mut connection, false)
        .await
        .map_err(|source| not_migrated(options.path.clone(), source))?;
    Ok(connection)
}

/// One program at a time has the file, so nothing that a newer one did to it has to be borne.
fn not_migrated(path: PathBuf, source: MigrateError) -> OpenError {
    match source {
        MigrateError::VersionMissing(found) => {
            let known = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
            OpenError::TooNew { path, found, known }
        }
        source => OpenError::Migrate { path, source },
    }
}

fn writing(options: &Options) -> SqliteConnectOptions {
    common(options)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // Fewer, larger checkpoints: each costs two more syncs than a commit.
        .pragma("wal_autocheckpoint", "4000")
        // What is kept of the write-ahead log's file; less than what makes the writer start it anew.
        .pragma("journal_size_limit", "16777216")
        .pragma("cache_size", "-16384")
}

fn reading(options: &Options) -> SqliteConnectOptions {
    // The connection's thread reads ahead this far. A row may have a megabyte, and a page ends by bytes too.
    common(options).read_only(true).row_buffer_size(16)
}

fn common(options: &Options) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(&options.path)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .statement_cache_capacity(200)
        .disable_statement_logging()
}

/// Opens the writing connection anew after the old one became unusable.
pub(crate) async fn reconnect(options: &SqliteConnectOptions) -> Result<SqliteConnection, sqlx::Error> {
    options.connect().await
}
