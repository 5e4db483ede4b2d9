//! One transaction for everything that was gathered.
//!
//! Events that cause nothing go the short way, in one statement. Else the usual road is one pass over all jobs. If
//! PostgreSQL refuses something in it, the pass is undone and the jobs are tried again in halves, each behind a
//! savepoint of one new transaction, down to single events: only the culprit is refused, and a request is still
//! stored in one commit.
//!
//! If somebody else was in the way, the same is tried again; if it took too long,
//! half of the jobs are tried at once. An error of the commit itself is never
//! tried again: whether it happened is not known.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sunaba_store::{AppendOutcome, Error, FeedEntry, Outdated, Rejection};
use sunaba_store_sql::writer::{AppendJob, Piece, halves, pass};
use tokio::time::{sleep, timeout};

use super::{Context, Job};
use crate::fault::{Trouble, WriterAway, is_taken_id, trouble};
use crate::unit::{BeginError, Needs, Plain, Prepared, Unit, Unwritten};

/// For how long a transaction is tried again.
const TRY_FOR: Duration = Duration::from_secs(6);
/// How long to step back before the first try again; twice as long before each later one.
const STEP_BACK: Duration = Duration::from_millis(5);
const STEP_BACK_MAX: Duration = Duration::from_millis(200);
/// A transaction that takes this long hangs: a statement has two seconds.
const HANGS_AFTER: Duration = Duration::from_secs(8);
/// A commit that takes longer than this is worth a line in the log.
const SLOW_COMMIT: Duration = Duration::from_secs(1);

/// The right to read and write, until it is given up.
pub(super) type Turn = Option<tokio::sync::OwnedSemaphorePermit>;

/// Why nothing was committed.
#[derive(Debug)]
enum Failure {
    /// The same again may go through.
    Again(String),
    /// Less at once may go through.
    Slow(String),
    /// Not now.
    Outage(String),
    /// Never again by this program.
    Outdated(Outdated),
    /// The connection was lost in the commit.
    Unknown,
}

impl From<BeginError> for Failure {
    fn from(error: BeginError) -> Self {
        match error {
            // Nothing was done yet; a connection that a restart of the server has cut is replaced.
            BeginError::Stale(error) => Self::Again(error.to_string()),
            BeginError::Away(error) => Self::Outage(error.to_string()),
            BeginError::NotDurable(setting) => Self::Outage(format!("PostgreSQL has {setting} off")),
            BeginError::Outdated(outdated) => Self::Outdated(outdated),
        }
    }
}

/// Commits jobs, in one transaction if that goes, and answers them.
pub(super) async fn commit_all(context: &Context, jobs: Vec<Job>, mut turn: Turn) {
    let mut left = vec![jobs];
    while let Some(mut jobs) = left.pop() {
        let started = Instant::now();
        let published = match at_once(context, &mut jobs, &mut turn).await {
            Some(published) => Ok(published),
            None => patiently(context, &mut jobs, &mut turn).await,
        };
        match published {
            Ok(published) => {
                context.publish(published);
                if started.elapsed() > SLOW_COMMIT {
                    tracing::warn!(took = ?started.elapsed(), jobs = jobs.len(), "a slow commit");
                }
                jobs.into_iter().for_each(Job::settle);
            }
            Err(Failure::Slow(_)) if jobs.len() > 1 => {
                let second = jobs.split_off(jobs.len() / 2);
                left.extend([second, jobs]);
            }
            Err(failure) => fail(context, jobs, &failure),
        }
    }
}

/// The short way for events that cause nothing; none if they have to go the other one.
async fn at_once(context: &Context, jobs: &mut [Job], turn: &mut Turn) -> Option<Vec<Arc<FeedEntry>>> {
    let repeats = |job: &AppendJob| context.repeaters.has(&job.append.sandbox_id);
    if !jobs.iter().all(|job| matches!(job, Job::Append(job) if !repeats(job))) {
        return None;
    }
    let (plain, outcomes) = Plain::plan(context, appends(jobs).map(|job| &job.append))?;
    // The database does the rest; the next one may be put together meanwhile.
    *turn = None;
    let unwritten = match plain.commit(&context.lines).await {
        Ok(published) => {
            for (job, outcomes) in jobs.iter_mut().zip(outcomes) {
                let Job::Append(job) = job else { continue };
                outcomes.into_iter().enumerate().for_each(|(index, outcome)| job.decide(index, outcome));
            }
            return Some(published);
        }
        Err(unwritten) => unwritten,
    };
    if matches!(unwritten, Unwritten::Unknown) {
        // They may be there already, and are looked for.
        appends(jobs).for_each(|job| context.repeaters.note(&job.append.sandbox_id));
        // Then nobody else tells those who follow the feed.
        context.hint.send_if_modified(|_| true);
    }
    None
}

fn fail(context: &Context, jobs: Vec<Job>, failure: &Failure) {
    context.recent.forget();
    tracing::warn!(?failure, jobs = jobs.len(), "the store could not commit");
    let told = || match failure {
        Failure::Again(error) | Failure::Slow(error) | Failure::Outage(error) => {
            Error::Unavailable(error.clone().into())
        }
        // Others wait as for an outage: the newer program will take what they have.
        Failure::Outdated(outdated) => (*outdated).into(),
        Failure::Unknown => WriterAway::Silent.into(),
    };
    jobs.into_iter().for_each(|job| job.fail(told()));
}

/// Tries until it goes through, fails for good or has taken too long.
async fn patiently(
    context: &Context,
    jobs: &mut [Job],
    turn: &mut Turn,
) -> Result<Vec<Arc<FeedEntry>>, Failure> {
    let (started, mut pause) = (Instant::now(), STEP_BACK);
    loop {
        match once(context, jobs, turn).await {
            Err(Failure::Again(error)) if started.elapsed() < TRY_FOR => {
                tracing::debug!(error, jobs = jobs.len(), "a transaction is tried again");
                sleep(pause).await;
                pause = (pause * 2).min(STEP_BACK_MAX);
            }
            outcome => return outcome,
        }
    }
}

async fn once(context: &Context, jobs: &mut [Job], turn: &mut Turn) -> Result<Vec<Arc<FeedEntry>>, Failure> {
    let mut unit = Unit::begin(context).await?;
    match timeout(HANGS_AFTER, whole(context, &mut unit, jobs, turn)).await {
        Ok(Ok(())) => {}
        // What fails in no known way may be the session's fault: its connection is closed, not used again.
        Ok(Err(failure @ Failure::Outage(_))) => return Err(failure),
        Ok(Err(failure)) => {
            unit.rollback().await;
            return Err(failure);
        }
        Err(_) => return Err(Failure::Outage("PostgreSQL does not answer".to_owned())),
    }
    match timeout(HANGS_AFTER, unit.commit()).await {
        Ok(Ok(published)) => Ok(published),
        Ok(Err(error)) if trouble(&error) == Trouble::Outage => Err(Failure::Unknown),
        Ok(Err(error)) => {
            unit.rollback().await;
            Err(failure_of(&error))
        }
        Err(_) => Err(Failure::Unknown),
    }
}

/// Everything but the commit.
async fn whole(context: &Context, unit: &mut Unit, jobs: &mut [Job], turn: &mut Turn) -> Result<(), Failure> {
    let pieces = Piece::all(jobs);
    match first_pass(context, unit, jobs, &pieces).await? {
        Ok(()) => {}
        Err(error) if trouble(&error) != Trouble::Statement => return Err(failure_of(&error)),
        Err(error) => {
            tracing::warn!(%error, jobs = jobs.len(), "a transaction was refused; looking for the culprit");
            again(unit, jobs).await?;
            halves(unit, jobs, pieces).await.map_err(|error| failure_of(&error))?;
        }
    }
    // From here on it only waits; the next one may begin.
    *turn = None;
    unit.flush_feed().await.map_err(|error| failure_of(&error))
}

/// One pass that believes events to be new, as nearly all are; if that may be wrong, another that knows.
async fn first_pass(
    context: &Context,
    unit: &mut Unit,
    jobs: &mut [Job],
    pieces: &[Piece],
) -> Result<Result<(), sqlx::Error>, Failure> {
    let believed = |job: &AppendJob| !context.repeaters.has(&job.append.sandbox_id);
    prepare(unit, jobs, |job| !believed(job)).await?;
    let repeated = match pass(unit, jobs, pieces).await {
        Ok(()) => appends(jobs).any(|job| believed(job) && job.outcomes().iter().any(may_be_repeated)),
        Err(error) if is_taken_id(&error) => true,
        Err(error) => return Ok(Err(error)),
    };
    if !repeated {
        return Ok(Ok(()));
    }
    again(unit, jobs).await?;
    let passed = pass(unit, jobs, pieces).await;
    for job in appends(jobs).filter(|job| job.outcomes().iter().any(is_repeated)) {
        context.repeaters.note(&job.append.sandbox_id);
    }
    Ok(passed)
}

/// Begins anew, knowing which event ids are taken.
async fn again(unit: &mut Unit, jobs: &[Job]) -> Result<(), Failure> {
    unit.restart().await?;
    prepare(unit, jobs, |_| true).await
}

fn appends(jobs: &[Job]) -> impl Iterator<Item = &AppendJob> + Clone {
    jobs.iter().filter_map(|job| match job {
        Job::Append(job) => Some(job),
        Job::Command(_) => None,
    })
}

/// Whether a refusal would be another answer if the event was taken in before.
fn may_be_repeated(outcome: &AppendOutcome) -> bool {
    // Whoever may not write at all is refused before anybody looks at what it says.
    matches!(outcome, Err(refusal) if !matches!(refusal, Rejection::UnknownSandbox | Rejection::AttemptSuperseded))
}

fn is_repeated(outcome: &AppendOutcome) -> bool {
    match outcome {
        Ok(appended) => appended.duplicate,
        Err(refusal) => *refusal == Rejection::EventIdConflict,
    }
}

fn failure_of(error: &sqlx::Error) -> Failure {
    match trouble(error) {
        Trouble::Busy => Failure::Again(error.to_string()),
        Trouble::Slow => Failure::Slow(error.to_string()),
        Trouble::Outage | Trouble::Statement => Failure::Outage(error.to_string()),
    }
}

/// Locks and reads what the jobs need; of whose events it is also looked up which ids are taken, `look_up` says.
async fn prepare(unit: &mut Unit, jobs: &[Job], look_up: impl Fn(&AppendJob) -> bool) -> Result<(), Failure> {
    let mut needs = Needs::default();
    for job in jobs {
        match job {
            Job::Command(command) => command.needs(&mut needs),
            Job::Append(job) => needs.append(&job.append, look_up(job)),
        }
    }
    match unit.prepare(needs).await {
        Ok(Prepared::Yes) => Ok(()),
        Ok(Prepared::Overtaken) => Err(Failure::Again("another server made the same sandbox".to_owned())),
        Err(error) => Err(failure_of(&error)),
    }
}
