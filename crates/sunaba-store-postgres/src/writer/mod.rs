//! The one task that gathers what is to be written.
//!
//! It takes what waits and hands it to a task that commits it as one transaction and
//! only then answers. Two of those may be under way at once, each with its share of
//! the requests: while one half is written the other is answered and comes back.

mod batch;
mod repeaters;

use std::sync::Arc;
use std::time::Duration;

use sunaba_store::{Append, AppendOutcome, FeedEntry, Result};
use sunaba_store_sql::tail::Tail;
use sunaba_store_sql::writer::{Lanes, Queue};
use sunaba_types::Clock;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

pub(crate) use repeaters::Repeaters;
pub(crate) use sunaba_store_sql::writer::Command;

use crate::lines::Lines;
use crate::listen::advance;
use crate::others::Others;
use crate::unit::{Recent, Terms, Unit};

type Job = sunaba_store_sql::writer::Job<Unit>;

/// What every transaction needs.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) lines: Arc<Lines>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) legacy_silence_seconds: i64,
    pub(crate) hint: Arc<watch::Sender<i64>>,
    pub(crate) terms: Terms,
    pub(crate) tail: Arc<Tail>,
    pub(crate) repeaters: Arc<Repeaters>,
    pub(crate) recent: Arc<Recent>,
    /// Under which name commits are told.
    pub(crate) teller: Arc<str>,
    pub(crate) others: Arc<Others>,
}

impl Context {
    /// Hands on what was committed to those who follow the feed.
    fn publish(&self, entries: Vec<Arc<FeedEntry>>) {
        let Some(position) = entries.last().map(|entry| entry.position) else { return };
        self.tail.keep(entries);
        advance(&self.hint, position);
    }
}

/// Leads to the writing task.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Queue<Unit>,
    tasks: TaskTracker,
    lines: Arc<Lines>,
}

impl Writer {
    pub(crate) fn start(context: Context, at_once: u32) -> Self {
        let (queue, lanes) = Queue::new();
        let (tasks, lines) = (TaskTracker::new(), Arc::clone(&context.lines));
        let at_once = at_once.max(1) as usize;
        let (slots, turn) = (Arc::new(Semaphore::new(at_once)), Arc::new(Semaphore::new(1)));
        tasks.spawn(Service { lanes, context, at_once, slots, turn }.run(tasks.clone()));
        tasks.close();
        Self { queue, tasks, lines }
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
        self.lines.close().await;
    }
}

struct Service {
    lanes: Lanes<Unit>,
    context: Context,
    /// How many transactions may be under way.
    at_once: usize,
    /// One for each of them.
    slots: Arc<Semaphore>,
    /// Held by the one that reads and writes, until it only waits. They commit one after the other (the feed's
    /// counter sees to that): to begin the next one sooner only makes both smaller. What goes the short way waits
    /// from its one statement on.
    turn: Arc<Semaphore>,
}

/// How long the next transaction waits for the one before to reach its commit.
const TURN_WITHIN: Duration = Duration::from_millis(10);

impl Service {
    async fn run(mut self, tasks: TaskTracker) {
        // What arrives while all are busy waits, and goes together.
        let (under_way, mut others) = watch::channel(0);
        while let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await {
            let turn = timeout(TURN_WITHIN, Arc::clone(&self.turn).acquire_owned()).await;
            let Some(jobs) = self.lanes.next_share(self.at_once, &mut others).await else { break };
            let (context, share) = (self.context.clone(), Share::of(&jobs, &under_way));
            tasks.spawn(async move {
                batch::commit_all(&context, jobs, turn.ok().and_then(Result::ok)).await;
                drop((share, slot));
            });
        }
    }
}

/// The requests of one transaction, counted for as long as it is under way, however it ends.
struct Share {
    requests: usize,
    under_way: watch::Sender<usize>,
}

impl Share {
    fn of(jobs: &[Job], under_way: &watch::Sender<usize>) -> Self {
        // Commands do not come back for more.
        let requests = jobs.iter().filter(|job| matches!(job, Job::Append(_))).count();
        under_way.send_modify(|all| *all += requests);
        Self { requests, under_way: under_way.clone() }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.under_way.send_modify(|all| *all -= self.requests);
    }
}
