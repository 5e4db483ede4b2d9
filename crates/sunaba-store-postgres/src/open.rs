//! The only place that opens connections.

use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool};
use sunaba_store_sql::tail::Tail;
use sunaba_types::Clock;
use sunaba_types::limits::{LEGACY_SILENCE_SECONDS, NODE_SILENCE};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::lines::Lines;
use crate::listen::Listener;
use crate::others::Others;
use crate::refusal::OpenError;
use crate::session;
use crate::unit::{Recent, Terms};
use crate::writer::{Context, Writer};

/// How long somebody waits for a connection; a server that restarts may be back by then.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection that rested longer than this is tried before it is used.
pub(crate) const TRY_AFTER: Duration = Duration::from_secs(1);
/// Where commits are told to other servers.
pub(crate) const CHANNEL: &str = "sunaba_feed";

/// Whether the disk must have what is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A server that acknowledges before is refused.
    Required,
    /// For tests of other things only: a server with `fsync` off is taken.
    WithoutFsync,
}

/// How to open the store.
#[derive(Clone)]
pub struct Options {
    /// The database's address (`postgres://user:password@host/database`).
    pub url: String,
    /// Tells the time of everything that is written.
    pub clock: Arc<dyn Clock>,
    /// How many connections for reading may be open at once.
    pub readers: u32,
    /// How many transactions may be written at once, each on a connection of its own.
    pub writers: u32,
    /// Whether the disk must have what is acknowledged.
    pub durability: Durability,
    /// Who has heard of no other server for so long does not tell what it appends.
    pub alone_after: Duration,
    /// How long a sandbox may be silent that does not heartbeat continuously.
    pub legacy_silence_seconds: i64,
}

impl Options {
    /// The usual settings.
    pub fn new(url: impl Into<String>, clock: Arc<dyn Clock>) -> Self {
        Self {
            url: url.into(),
            clock,
            readers: 8,
            writers: 2,
            durability: Durability::Required,
            alone_after: NODE_SILENCE,
            legacy_silence_seconds: LEGACY_SILENCE_SECONDS,
        }
    }
}

impl std::fmt::Debug for Options {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("readers", &self.readers)
            .field("writers", &self.writers)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

/// The store of several servers. Cheap to share; dropping the last one stops its writer.
pub struct PostgresStore {
    pub(crate) readers: PgPool,
    /// On which the feed is read, which follows every commit of others.
    pub(crate) feed_lines: Arc<Lines>,
    pub(crate) writer: Writer,
    pub(crate) hint: Arc<watch::Sender<i64>>,
    pub(crate) hints: watch::Receiver<i64>,
    pub(crate) tail: Arc<Tail>,
    /// The furthest position that others told of.
    pub(crate) nudged: AtomicI64,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) background: TaskTracker,
    pub(crate) stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("feed_head", &*self.hints.borrow()).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects, brings the layout up to date and starts the writer.
    pub async fn open(options: Options) -> Result<Arc<Self>, OpenError> {
        Self::open_even_if(Marked::Refused, options).await
    }

    pub(crate) async fn open_even_if(marked: Marked, options: Options) -> Result<Arc<Self>, OpenError> {
        let connect = address(&options)?;
        let position = bring_up_to_date(&connect, options.durability, marked).await?;
        let (hint, hints) = watch::channel(position);
        let (hint, tail) = (Arc::new(hint), Arc::<Tail>::default());
        let recent = Arc::<Recent>::default();
        let writers = forgetting_pool(options.writers, connect.clone().options(session::writing()), &recent);
        let lines = Lines::new(writers, options.writers as usize);
        // One more on which the store listens, and one on which the feed is read.
        let readers = pool(options.readers + 2, connect.clone().options(session::reading()));
        let (stop, background) = (CancellationToken::new(), TaskTracker::new());
        let teller: Arc<str> = sunaba_types::new_event_id().into();
        let (pool, teller_of) = (readers.clone(), Arc::clone(&teller));
        let others = Arc::new(Others::new(options.alone_after));
        let listener = Listener {
            pool,
            hint: Arc::clone(&hint),
            teller: teller_of,
            others: Arc::clone(&others),
            stop: stop.clone(),
        };
        background.spawn(listener.run());
        background.close();
        let context = Context {
            lines,
            clock: Arc::clone(&options.clock),
            legacy_silence_seconds: options.legacy_silence_seconds,
            hint: Arc::clone(&hint),
            terms: Terms { durability: options.durability, known_layout: known_layout() },
            tail: Arc::clone(&tail),
            repeaters: Arc::default(),
            recent,
            teller,
            others,
        };
        let writer = Writer::start(context, options.writers);
        let guard = stop.clone().drop_guard();
        Ok(Arc::new(Self {
            feed_lines: Lines::new(readers.clone(), 1),
            readers,
            writer,
            hint,
            hints,
            tail,
            nudged: AtomicI64::new(position),
            clock: options.clock,
            background,
            stop,
            _stop_when_dropped: guard,
        }))
    }
}

/// What becomes of a database into which a move is unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marked {
    /// It is not opened.
    Refused,
    /// It is, by the move itself.
    Taken,
}

/// A connection that a move writes with.
pub(crate) async fn connect_for_move(options: &Options) -> Result<PgConnection, OpenError> {
    let connect = address(options)?;
    bring_up_to_date(&connect, options.durability, Marked::Taken).await?;
    let connect = connect.options([("statement_timeout", "30min"), ("lock_timeout", "10s")]);
    connect.connect().await.map_err(|source| OpenError::Open { database: named(&connect), source })
}

/// Whether something is being moved into this database.
pub(crate) async fn is_marked(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(sunaba_store::transfer::MARK)
        .fetch_one(connection)
        .await
}

fn address(options: &Options) -> Result<PgConnectOptions, OpenError> {
    Ok(PgConnectOptions::from_str(&options.url)
        .map_err(OpenError::Address)?
        .application_name("sunaba")
        .statement_cache_capacity(200)
        // What the migrator makes "if it is not there" is no news at every start.
        .options([("client_min_messages", "warning")])
        .disable_statement_logging())
}

fn pool(most: u32, connect: PgConnectOptions) -> PgPool {
    pool_options(most).connect_lazy_with(connect)
}

/// Behind a new connection may be another server that took over and knows less: nothing that was remembered of
/// the one before counts.
fn forgetting_pool(most: u32, connect: PgConnectOptions, recent: &Arc<Recent>) -> PgPool {
    let recent = Arc::clone(recent);
    let options = pool_options(most).after_connect(move |_, _| {
        recent.forget();
        Box::pin(async { Ok(()) })
    });
    options.connect_lazy_with(connect)
}

fn pool_options(most: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(most)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .before_acquire(|connection, rested| {
            Box::pin(async move {
                if rested.idle_for > TRY_AFTER {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
}

/// Checks the server, migrates and gives the feed's last position.
async fn bring_up_to_date(
    connect: &PgConnectOptions,
    durability: Durability,
    marked: Marked,
) -> Result<i64, OpenError> {
    let database = named(connect);
    let failed = |source| OpenError::Open { database: database.clone(), source };
    let opening = tokio::time::timeout(Duration::from_secs(10), connect.connect());
    let mut connection = opening
        .await
        .unwrap_or(Err(sqlx::Error::PoolTimedOut))
        .map_err(|source| OpenError::of_connecting(&database, connect.get_username(), source))?;
    if let Some(setting) = not_durable(&mut connection, durability).await.map_err(failed)? {
        return Err(OpenError::NotDurable { database, setting });
    }
    if marked == Marked::Refused && is_marked(&mut connection).await.map_err(failed)? {
        return Err(OpenError::Unfinished { database });
    }
    // Others may be migrating right now: the migrator waits for them, under PostgreSQL's own lock. What newer
    // programs have added since is none of its business; whether it matters is asked below.
    let mut migrations = sqlx::migrate!();
    migrations.set_ignore_missing(true);
    migrations
        .run_direct(None, &mut connection, false)
        .await
        .map_err(|source| OpenError::Migrate { database: database.clone(), source })?;
    let needed = sqlx::query_scalar!("SELECT usable_from FROM layout").fetch_one(&mut connection).await;
    let needed = needed.map_err(failed)?;
    let known = known_layout();
    if needed > known {
        return Err(OpenError::TooNew { database, needed, known });
    }
    let position = sqlx::query_scalar!("SELECT position FROM feed_counter").fetch_one(&mut connection).await;
    let position = position.map_err(failed)?;
    connection.close().await.map_err(failed)?;
    Ok(position)
}

/// The newest layout that this program knows.
pub(crate) fn known_layout() -> i64 {
    sqlx::migrate!().iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Server and database, without a password.
pub(crate) fn named(connect: &PgConnectOptions) -> String {
    let name = connect.get_database().unwrap_or(connect.get_username());
    match connect.get_socket() {
        Some(socket) => format!("{name} at {}", socket.display()),
        None => format!("{name} at {}:{}", connect.get_host(), connect.get_port()),
    }
}

async fn not_durable(
    connection: &mut PgConnection,
    durability: Durability,
) -> Result<Option<&'static str>, sqlx::Error> {
    let row = sqlx::query!(
        r#"SELECT current_setting('synchronous_commit') AS "synchronous_commit!",
                  current_setting('fsync') AS "fsync!""#
    )
    .fetch_one(connection)
    .await?;
    Ok(durability.refuses(&row.synchronous_commit, &row.fsync))
}

impl Durability {
    /// What is off and must be on.
    pub(crate) fn refuses(self, synchronous_commit: &str, fsync: &str) -> Option<&'static str> {
        if synchronous_commit == "off" {
            Some("synchronous_commit")
        } else if fsync == "off" && self == Self::Required {
            Some("fsync")
        } else {
            None
        }
    }
}
