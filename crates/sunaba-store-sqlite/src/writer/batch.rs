//! One transaction for everything that was gathered.
//!
//! The usual road is one pass over all jobs. If SQLite refuses something in
//! it, the pass is undone and the jobs are tried again in halves, each behind
//! a savepoint of one new transaction, down to single events: only the culprit
//! is refused, and a request is still stored in one commit.

use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;
use sunaba_store::FeedEntry;
use sunaba_store_sql::writer::{Piece, halves, pass};

use super::Job;
use crate::fault::is_outage;
use crate::unit::Unit;

/// Commits all jobs; gives what was published. An error means that nothing was done.
pub(super) async fn commit(
    unit: &mut Unit,
    connect: &SqliteConnectOptions,
    jobs: &mut [Job],
) -> Result<Vec<Arc<FeedEntry>>, sqlx::Error> {
    let outcome = whole(unit, connect, jobs).await;
    if outcome.is_err() {
        unit.rollback().await;
    }
    outcome
}

async fn whole(
    unit: &mut Unit,
    connect: &SqliteConnectOptions,
    jobs: &mut [Job],
) -> Result<Vec<Arc<FeedEntry>>, sqlx::Error> {
    let pieces = Piece::all(jobs);
    unit.begin(connect).await?;
    match pass(unit, jobs, &pieces).await {
        Ok(()) => {}
        Err(error) if is_outage(&error) => return Err(error),
        Err(error) => {
            tracing::warn!(%error, jobs = jobs.len(), "a transaction was refused; looking for the culprit");
            unit.rollback().await;
            unit.begin(connect).await?;
            halves(unit, jobs, pieces).await?;
        }
    }
    unit.commit().await
}
