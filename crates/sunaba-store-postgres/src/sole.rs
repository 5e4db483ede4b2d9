//! One orchestrator a database, for as long as rows do not name the server that looks after them.
//!
//! A lock of PostgreSQL's own, which ends with the session that holds it: a server that dies frees it at once.
//! A session that breaks is made again. All of this goes when several orchestrators may share a database.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::open::named;
use crate::{OpenError, PostgresStore};

/// How long a server that was just killed may hold it still.
const PATIENCE: Duration = Duration::from_secs(3);
const TRY_EVERY: Duration = Duration::from_millis(50);
/// How often the session is tried, and how long it may take to answer.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The name of the lock.
const CLASS: i32 = 0x5a4b;
const ORCHESTRATOR: i32 = 1;

/// The right to look after the sandboxes of a database; ends when it is dropped.
#[derive(Debug)]
pub struct SoleOrchestrator {
    _keeping: AbortOnDropHandle<()>,
}

impl PostgresStore {
    /// Takes the right, or says that another server has it.
    pub async fn sole_orchestrator(&self) -> Result<SoleOrchestrator, OpenError> {
        // A machine that vanishes without a word is noticed within half a minute.
        let connect = (*self.readers.connect_options()).clone().options([
            ("tcp_keepalives_idle", "10"),
            ("tcp_keepalives_interval", "5"),
            ("tcp_keepalives_count", "3"),
        ]);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match take(&connect).await {
                Ok(Some(session)) => {
                    let keeping = AbortOnDropHandle::new(tokio::spawn(keep(connect, session)));
                    return Ok(SoleOrchestrator { _keeping: keeping });
                }
                Ok(None) if Instant::now() < deadline => sleep(TRY_EVERY).await,
                Ok(None) => return Err(OpenError::Taken { database: named(&connect) }),
                Err(source) => return Err(OpenError::Open { database: named(&connect), source }),
            }
        }
    }
}

/// A session that holds the lock; none if another one does.
async fn take(connect: &PgConnectOptions) -> Result<Option<PgConnection>, sqlx::Error> {
    let taking = async {
        let mut session = connect.connect().await?;
        let taken = sqlx::query_scalar!(
            r#"SELECT pg_try_advisory_lock($1::integer, $2::integer) AS "taken!""#,
            CLASS,
            ORCHESTRATOR
        )
        .fetch_one(&mut session)
        .await?;
        Ok(taken.then_some(session))
    };
    timeout(ANSWER_WITHIN, taking).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}

/// Holds the lock, and takes it again when the session breaks.
async fn keep(connect: PgConnectOptions, mut session: PgConnection) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        if timeout(ANSWER_WITHIN, session.ping()).await.is_ok_and(|answer| answer.is_ok()) {
            continue;
        }
        match take(&connect).await {
            Ok(Some(again)) => session = again,
            Ok(None) => tracing::error!(
                database = named(&connect),
                "another server has begun to look after the same sandboxes; stop one of the two"
            ),
            Err(error) => tracing::debug!(%error, "the database does not answer"),
        }
    }
}
