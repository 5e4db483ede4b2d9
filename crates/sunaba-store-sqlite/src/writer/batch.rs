//! One transaction for everything that was gathered.
//!
//! The usual road is one pass over all jobs. If SQLite refuses something in
//! it, the pass is undone and the jobs are tried again in halves, each behind
//! a savepoint of one new transaction, down to single events: only the culprit
//! is refused, and a request is still stored in one commit.

use std::ops::Range;

use sqlx::sqlite::SqliteConnectOptions;
use sunaba_store::Rejection;

use super::job::Job;
use crate::fault::is_outage;
use crate::unit::Unit;

/// A job, or some events of one.
#[derive(Debug, Clone)]
struct Piece {
    job: usize,
    events: Range<usize>,
}

/// Commits all jobs; gives the feed's last position. An error means that nothing was done.
pub(super) async fn commit(
    unit: &mut Unit,
    connect: &SqliteConnectOptions,
    jobs: &mut [Job],
) -> Result<i64, sqlx::Error> {
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
) -> Result<i64, sqlx::Error> {
    let pieces: Vec<Piece> = jobs.iter().enumerate().map(|(job, kind)| Piece::all(job, kind)).collect();
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

async fn pass(unit: &mut Unit, jobs: &mut [Job], pieces: &[Piece]) -> Result<(), sqlx::Error> {
    let appends = pieces.iter().filter_map(|piece| match &jobs[piece.job] {
        Job::Append(job) => Some((&job.append.sandbox_id, &job.append.events[piece.events.clone()])),
        Job::Command(_) => None,
    });
    unit.recall_ids(appends).await?;
    for piece in pieces {
        match &mut jobs[piece.job] {
            Job::Command(command) => command.run(unit).await?,
            Job::Append(job) => {
                for index in piece.events.clone() {
                    let event = &job.append.events[index];
                    let outcome = unit.ingest(&job.append.sandbox_id, job.append.writer, event).await?;
                    job.decide(index, outcome);
                }
            }
        }
    }
    unit.flush().await
}

async fn halves(unit: &mut Unit, jobs: &mut [Job], pieces: Vec<Piece>) -> Result<(), sqlx::Error> {
    let mut left = vec![pieces];
    while let Some(pieces) = left.pop() {
        let before = unit.save().await?;
        match pass(unit, jobs, &pieces).await {
            Ok(()) => unit.release().await?,
            Err(error) if is_outage(&error) => return Err(error),
            Err(error) => {
                unit.restore(before).await?;
                match split(pieces) {
                    Ok((first, second)) => left.extend([second, first]),
                    Err(culprit) => refuse(&mut jobs[culprit.job], culprit.events.start, error),
                }
            }
        }
    }
    Ok(())
}

fn refuse(job: &mut Job, index: usize, error: sqlx::Error) {
    match job {
        Job::Command(command) => command.refuse(error),
        Job::Append(job) => {
            let detail = match &error {
                sqlx::Error::Database(database) => database.message().to_owned(),
                other => other.to_string(),
            };
            job.decide(index, Err(Rejection::Refused(detail)));
        }
    }
}

/// Two halves, or the one piece that cannot be split.
fn split(mut pieces: Vec<Piece>) -> Result<(Vec<Piece>, Vec<Piece>), Piece> {
    if pieces.len() > 1 {
        let second = pieces.split_off(pieces.len() / 2);
        return Ok((pieces, second));
    }
    let Some(piece) = pieces.pop() else { return Ok((Vec::new(), Vec::new())) };
    if piece.events.len() < 2 {
        return Err(piece);
    }
    let Range { start, end } = piece.events;
    let middle = start + (end - start) / 2;
    let half = |events| vec![Piece { job: piece.job, events }];
    Ok((half(start..middle), half(middle..end)))
}

impl Piece {
    fn all(job: usize, kind: &Job) -> Self {
        let events = match kind {
            Job::Command(_) => 0..0,
            Job::Append(job) => 0..job.append.events.len(),
        };
        Self { job, events }
    }
}
