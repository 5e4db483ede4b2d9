//! Connections that go from one user to the next without a look at them in between.
//!
//! The pool asks a connection whether it is well whenever it is given back: one more way to the server and back for
//! every transaction, on which the next one waits. Whoever has just heard from the server knows that already. So a
//! line that was used well rests here; one that was not is closed; one that has rested for long is asked before it is
//! used again; and one that was away from the pool for long goes back, which ends what is too old.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, PgConnection, PgPool, Postgres};
use tokio::time::timeout;

use crate::open::TRY_AFTER;

/// How long a line may take to say that it is well.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// For how long a line stays away from the pool.
const AWAY_FOR: Duration = Duration::from_secs(300);

/// See the module.
#[derive(Debug)]
pub(crate) struct Lines {
    pool: PgPool,
    /// How many may rest; more go back to the pool, where others find them.
    most: usize,
    rested: Mutex<Vec<Rested>>,
}

#[derive(Debug)]
struct Rested {
    line: Away,
    since: Instant,
}

/// A connection that is not in the pool.
#[derive(Debug)]
struct Away {
    connection: PoolConnection<Postgres>,
    /// When it left the pool.
    since: Instant,
}

impl Lines {
    pub(crate) fn new(pool: PgPool, most: usize) -> Arc<Self> {
        Arc::new(Self { pool, most, rested: Mutex::default() })
    }

    /// One that rests, or one of the pool's.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<Line, sqlx::Error> {
        while let Some(Rested { line, since }) = self.pop() {
            // Whoever gives up in the middle of the question closes it.
            let mut line = self.lend(line);
            if since.elapsed() < TRY_AFTER || matches!(timeout(ANSWERS_WITHIN, line.ping()).await, Ok(Ok(())))
            {
                return Ok(line);
            }
        }
        Ok(self.lend(Away { connection: self.pool.acquire().await?, since: Instant::now() }))
    }

    /// Closes all of them; nobody gets one any more.
    pub(crate) async fn close(&self) {
        // From here on nothing rests any more, and the pool waits for all of its connections.
        let closing = self.pool.close();
        self.held().clear();
        closing.await;
    }

    fn lend(self: &Arc<Self>, line: Away) -> Line {
        Line { away: Some(line), home: Arc::clone(self) }
    }

    fn pop(&self) -> Option<Rested> {
        self.held().pop()
    }

    fn rest(&self, line: Away) {
        let mut held = self.held();
        if held.len() < self.most && line.since.elapsed() < AWAY_FOR && !self.pool.is_closed() {
            held.push(Rested { line, since: Instant::now() });
        }
    }

    fn held(&self) -> MutexGuard<'_, Vec<Rested>> {
        self.rested.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection in use. It is closed afterwards, whatever happens, unless its user says that all is well.
#[derive(Debug)]
pub(crate) struct Line {
    /// There until it rests or is closed.
    away: Option<Away>,
    home: Arc<Lines>,
}

impl Line {
    /// All is well: nothing is open on it and the server has answered.
    pub(crate) fn rest(&mut self) {
        if let Some(line) = self.away.take() {
            self.home.rest(line);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(line) = &mut self.away {
            line.connection.close_on_drop();
        }
    }
}

impl Deref for Line {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.away.as_ref().expect("it is in use").connection
    }
}

impl DerefMut for Line {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.away.as_mut().expect("it is in use").connection
    }
}

#[cfg(test)]
mod tests {
    use sqlx::postgres::PgPoolOptions;
    use sunaba_testkit::Postgres;

    use super::*;

    async fn lines() -> Arc<Lines> {
        let pool = PgPoolOptions::new().max_connections(2).connect(&Postgres::shared().database()).await;
        Lines::new(pool.unwrap(), 1)
    }

    /// Who answers at its other end.
    async fn served_by(line: &mut Line) -> i32 {
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut **line).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn only_a_line_that_was_used_well_is_used_again() {
        let lines = lines().await;
        let mut first = lines.take().await.unwrap();
        let server = served_by(&mut first).await;
        first.rest();
        let mut again = lines.take().await.unwrap();
        assert_eq!(served_by(&mut again).await, server);
        drop(again);
        assert_ne!(served_by(&mut lines.take().await.unwrap()).await, server, "nobody said that it was well");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_line_that_has_rested_for_long_is_asked_first() {
        let lines = lines().await;
        let [mut well, mut cut] = [lines.take().await.unwrap(), lines.take().await.unwrap()];
        let server = served_by(&mut cut).await;
        cut.rest();
        lines.held()[0].since -= TRY_AFTER;
        sqlx::query("SELECT pg_terminate_backend($1, 5000)").bind(server).execute(&mut *well).await.unwrap();
        assert_ne!(served_by(&mut lines.take().await.unwrap()).await, server);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_away_for_long_goes_back_to_the_pool() {
        let lines = lines().await;
        let mut old = lines.take().await.unwrap();
        old.away.as_mut().unwrap().since -= AWAY_FOR;
        old.rest();
        assert!(lines.held().is_empty());
        assert!(served_by(&mut lines.take().await.unwrap()).await > 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn more_than_may_rest_are_the_pools_and_closing_waits_for_none() {
        let lines = lines().await;
        let [mut one, mut other] = [lines.take().await.unwrap(), lines.take().await.unwrap()];
        one.rest();
        other.rest();
        assert_eq!(lines.held().len(), 1);
        timeout(Duration::from_secs(10), lines.close()).await.expect("what rests keeps nobody waiting");
        assert!(lines.take().await.is_err());
    }
}
