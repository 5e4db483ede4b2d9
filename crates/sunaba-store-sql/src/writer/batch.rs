//! The jobs of one transaction, and the search for the one that the database refuses.

use std::ops::Range;

use sunaba_store::Rejection;

use super::{Job, Transaction};

/// A job, or some events of one.
#[derive(Debug, Clone)]
pub struct Piece {
    job: usize,
    events: Range<usize>,
}

/// Does these pieces and writes what they collected.
pub async fn pass<T: Transaction>(
    unit: &mut T,
    jobs: &mut [Job<T>],
    pieces: &[Piece],
) -> Result<(), sqlx::Error> {
    let appends = pieces.iter().filter_map(|piece| match &jobs[piece.job] {
        Job::Append(job) => Some((&job.append.sandbox_id, &job.append.events[piece.events.clone()])),
        Job::Command(_) => None,
    });
    unit.recall_ids(&appends.collect::<Vec<_>>()).await?;
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

/// Does these pieces in halves, each behind a savepoint, down to single events: only the culprit is refused.
pub async fn halves<T: Transaction>(
    unit: &mut T,
    jobs: &mut [Job<T>],
    pieces: Vec<Piece>,
) -> Result<(), sqlx::Error> {
    let mut left = vec![pieces];
    while let Some(pieces) = left.pop() {
        let before = unit.save().await?;
        match pass(unit, jobs, &pieces).await {
            Ok(()) => unit.release().await?,
            Err(error) if !T::is_of_a_statement(&error) => return Err(error),
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

fn refuse<T: Transaction>(job: &mut Job<T>, index: usize, error: sqlx::Error) {
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
    /// All of these jobs.
    pub fn all<T: Transaction>(jobs: &[Job<T>]) -> Vec<Self> {
        let pieces = jobs.iter().enumerate().map(|(job, kind)| {
            let events = match kind {
                Job::Command(_) => 0..0,
                Job::Append(job) => 0..job.append.events.len(),
            };
            Self { job, events }
        });
        pieces.collect()
    }
}
