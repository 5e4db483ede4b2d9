//! The one task that writes.
//!
//! It takes everything that waits, commits it as one transaction and only then answers.

mod batch;
mod wal;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sunaba_store::{Append, AppendOutcome, FeedEntry, Result};
use sunaba_store_sql::tail::Tail;
use sunaba_store_sql::writer::{Lanes, Queue};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

pub(crate) use sunaba_store_sql::writer::Command;

use crate::fault::told_again;
use crate::unit::Unit;

type Job = sunaba_store_sql::writer::Job<Unit>;

/// A commit that takes longer than this is worth a line in the log.
const SLOW_COMMIT: Duration = Duration::from_secs(1);

/// Leads to the writing task.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Queue<Unit>,
    tasks: TaskTracker,
}

impl Writer {
    pub(crate) fn start(
        connect: SqliteConnectOptions,
        unit: Unit,
        hint: watch::Sender<i64>,
        tail: Arc<Tail>,
    ) -> Self {
        let (queue, lanes) = Queue::new();
        let tasks = TaskTracker::new();
        tasks.spawn(Service { lanes, connect, hint, tail }.run(unit));
        tasks.close();
        Self { queue, tasks }
    }

    /// Runs a command in the next transaction and answers once that is durable.
    pub(crate) async fn run<C: Command<Unit>>(&self, command: C) -> Result<C::Output> {
        self.queue.run(command).await
    }

    /// Appends events in the next transaction and answers once that is durable.
    pub(crate) async fn append(&self, append: Append) -> Result<Vec<AppendOutcome>> {
        self.queue.append(append).await
    }

    /// Commits what was taken, takes nothing more and ends.
    pub(crate) async fn close(&self) {
        self.queue.stop();
        self.tasks.wait().await;
    }
}

struct Service {
    lanes: Lanes<Unit>,
    connect: SqliteConnectOptions,
    hint: watch::Sender<i64>,
    tail: Arc<Tail>,
}

impl Service {
    async fn run(mut self, mut unit: Unit) {
        let mut log = wal::LogKeeper::new(&self.connect);
        while let Some(mut jobs) = self.lanes.next_batch().await {
            let started = Instant::now();
            match batch::commit(&mut unit, &self.connect, &mut jobs).await {
                Ok(published) => {
                    self.publish(published);
                    if started.elapsed() > SLOW_COMMIT {
                        tracing::warn!(took = ?started.elapsed(), jobs = jobs.len(), "a slow commit");
                    }
                    jobs.into_iter().for_each(Job::settle);
                }
                Err(error) => self.fail(jobs, &error),
            }
            log.tend(&mut unit).await;
        }
        unit.close().await;
    }

    /// Hands on what was committed to those who follow the feed.
    fn publish(&self, entries: Vec<Arc<FeedEntry>>) {
        let Some(position) = entries.last().map(|entry| entry.position) else { return };
        self.tail.keep(entries);
        self.hint.send_replace(position);
    }

    /// Whoever came while the store could not commit has waited as long as the batch that failed.
    /// They are collected before anybody is answered: a retry that follows an answer is a new try.
    fn fail(&mut self, mut jobs: Vec<Job>, error: &sqlx::Error) {
        self.lanes.drain(&mut jobs);
        tracing::warn!(%error, waiting = jobs.len(), "the store could not commit");
        jobs.into_iter().for_each(|job| job.fail(told_again(error)));
    }
}
