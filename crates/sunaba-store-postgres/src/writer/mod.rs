//! The one task that gathers what is to be written.
//!
//! Two bounded lanes lead to it: one for messages, claims and state changes,
//! one for events. It takes everything that waits (the first lane first) and
//! hands it to a task that commits it as one transaction and only then answers;
//! a few of those may be under way at once. A full lane (by number or by bytes)
//! makes the caller wait briefly and then fails it as unavailable: memory stays bounded.

mod batch;
mod job;

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sunaba_store::{Append, AppendOutcome, Result};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use job::Command;

use crate::Durability;
use crate::fault::WriterAway;
use job::{AppendJob, Job, Pending, payload_bytes};
use sunaba_types::Clock;

/// How many commands may wait.
const PRIORITY_LANE: usize = 1024;
/// How many append requests may wait.
const EVENT_LANE: usize = 4096;
/// How many bytes of events may wait or be in work, in KiB.
const EVENT_LANE_KIB: u32 = 64 * 1024;
/// How long a caller waits for a place in a full lane.
const ENQUEUE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a caller waits for its answer. Only a server that hangs takes this long, and giving up
/// says "not known", so it is better to wait for as long as a client may.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the writer steps back while callers are still arriving.
const JOIN_ROUNDS: usize = 16;
/// Most of each kind in one transaction.
const BATCH_COMMANDS: usize = 256;
const BATCH_EVENTS: usize = 2000;
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// What every transaction needs.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) pool: PgPool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hint: Arc<watch::Sender<i64>>,
    pub(crate) durability: Durability,
}

/// Leads to the writing task.
#[derive(Debug)]
pub(crate) struct Writer {
    priority: mpsc::Sender<Job>,
    events: mpsc::Sender<AppendJob>,
    event_room: Arc<Semaphore>,
    stop: CancellationToken,
    tasks: TaskTracker,
    pool: PgPool,
}

impl Writer {
    pub(crate) fn start(context: Context, at_once: u32) -> Self {
        let (priority, priority_lane) = mpsc::channel(PRIORITY_LANE);
        let (events, event_lane) = mpsc::channel(EVENT_LANE);
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let pool = context.pool.clone();
        let slots = Arc::new(Semaphore::new(at_once.max(1) as usize));
        let service =
            Service { priority: priority_lane, events: event_lane, stop: stop.clone(), context, slots };
        tasks.spawn(service.run(tasks.clone()));
        tasks.close();
        let event_room = Arc::new(Semaphore::new(EVENT_LANE_KIB as usize));
        Self { priority, events, event_room, stop, tasks, pool }
    }

    /// Runs a command in the next transaction and answers once that is durable.
    pub(crate) async fn run<C: Command>(&self, command: C) -> Result<C::Output> {
        let (reply, answer) = oneshot::channel();
        enqueue(&self.priority, Job::Command(Box::new(Pending::new(command, reply)))).await?;
        answered(answer).await
    }

    /// Appends events in the next transaction and answers once that is durable.
    pub(crate) async fn append(&self, append: Append) -> Result<Vec<AppendOutcome>> {
        let kib = u32::try_from(payload_bytes(&append) / 1024 + 1).unwrap_or(u32::MAX).min(EVENT_LANE_KIB);
        let room = Arc::clone(&self.event_room).acquire_many_owned(kib);
        let room = match timeout(ENQUEUE_TIMEOUT, room).await {
            Ok(Ok(room)) => room,
            Ok(Err(_)) => return Err(WriterAway::Closed.into()),
            Err(_) => return Err(WriterAway::Overrun.into()),
        };
        let (reply, answer) = oneshot::channel();
        enqueue(&self.events, AppendJob::new(append, reply, room)).await?;
        answered(answer).await
    }

    /// Commits what was taken, takes nothing more and ends.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
        self.pool.close().await;
    }
}

async fn enqueue<T>(lane: &mpsc::Sender<T>, job: T) -> Result<()> {
    match timeout(ENQUEUE_TIMEOUT, lane.send(job)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(WriterAway::Closed.into()),
        Err(_) => Err(WriterAway::Overrun.into()),
    }
}

async fn answered<T>(answer: oneshot::Receiver<Result<T>>) -> Result<T> {
    match timeout(ANSWER_TIMEOUT, answer).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(WriterAway::Closed.into()),
        Err(_) => Err(WriterAway::Silent.into()),
    }
}

struct Service {
    priority: mpsc::Receiver<Job>,
    events: mpsc::Receiver<AppendJob>,
    stop: CancellationToken,
    context: Context,
    /// One for each transaction that may be under way.
    slots: Arc<Semaphore>,
}

impl Service {
    async fn run(mut self, tasks: TaskTracker) {
        // What arrives while all are busy waits, and goes together.
        while let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await {
            let Some(first) = self.next().await else { break };
            self.let_others_join().await;
            let jobs = self.gather(first);
            let context = self.context.clone();
            tasks.spawn(async move {
                batch::commit_all(&context, jobs).await;
                drop(slot);
            });
        }
    }

    /// The next thing to do; none once both lanes are closed and empty.
    async fn next(&mut self) -> Option<Job> {
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled(), if !self.priority.is_closed() => {
                    self.priority.close();
                    self.events.close();
                }
                Some(job) = self.priority.recv() => return Some(job),
                Some(job) = self.events.recv() => return Some(Job::Append(job)),
                else => return None,
            }
        }
    }

    /// Callers that were just answered often come back at once. Without this they would find the
    /// writer gone with the first of them, and every other transaction would hold one event.
    async fn let_others_join(&self) {
        for _ in 0..JOIN_ROUNDS {
            let waiting = self.events.len();
            tokio::task::yield_now().await;
            if self.events.len() == waiting {
                return;
            }
        }
    }

    fn gather(&mut self, first: Job) -> Vec<Job> {
        let mut late = Vec::new();
        let mut jobs = Vec::new();
        let (mut count, mut bytes) = (0, 0);
        match first {
            Job::Append(append) => {
                (count, bytes) = append.weight();
                late.push(Job::Append(append));
            }
            command @ Job::Command(_) => jobs.push(command),
        }
        while jobs.len() < BATCH_COMMANDS {
            let Ok(job) = self.priority.try_recv() else { break };
            jobs.push(job);
        }
        jobs.append(&mut late);
        while count < BATCH_EVENTS && bytes < BATCH_BYTES {
            let Ok(append) = self.events.try_recv() else { break };
            let (more_events, more_bytes) = append.weight();
            count += more_events;
            bytes += more_bytes;
            jobs.push(Job::Append(append));
        }
        jobs
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sunaba_types::{EventPayload, NewEvent, SandboxId, Source};

    use super::*;

    /// A request of nine megabytes.
    fn heavy() -> Append {
        let payload = EventPayload::from_value(&json!({"text": "x".repeat(1_000_000)})).unwrap();
        let event = NewEvent {
            event_id: "e".to_owned(),
            event_type: "x".to_owned(),
            source: Source::Agent,
            payload,
            step: None,
        };
        let writer = sunaba_store::Writer::Registrar;
        Append { sandbox_id: SandboxId::generate(), writer, events: vec![event; 9] }
    }

    #[tokio::test]
    async fn what_waits_is_bounded_by_bytes_too() {
        let (priority, _commands) = mpsc::channel(1);
        let (events, mut lane) = mpsc::channel(EVENT_LANE);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let event_room = Arc::new(Semaphore::new(EVENT_LANE_KIB as usize));
        let pool = sqlx::postgres::PgPoolOptions::new()
            .connect_lazy_with(sqlx::postgres::PgConnectOptions::new_without_pgpass());
        let writer = Arc::new(Writer { priority, events, event_room, stop, tasks, pool });
        let post = || {
            let writer = Arc::clone(&writer);
            tokio::spawn(async move { writer.append(heavy()).await })
        };
        let waiting: Vec<_> = (0..7).map(|_| post()).collect();
        let refused = post().await.unwrap().unwrap_err();
        assert!(format!("{refused:?}").contains("Overrun"), "{refused:?}");
        assert_eq!(lane.len(), 7);
        lane.close();
        while lane.try_recv().is_ok() {}
        for post in waiting {
            assert!(post.await.unwrap().is_err());
        }
        assert_eq!(writer.event_room.available_permits(), EVENT_LANE_KIB as usize, "room is given back");
    }
}
