//! The two lanes: who puts something in, and who takes batches out.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use sunaba_store::{Append, AppendOutcome, Result};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Transaction;
use super::job::{AppendJob, Command, Job, payload_bytes};
use crate::fault::WriterAway;

/// How many commands may wait.
const PRIORITY_LANE: usize = 1024;
/// How many append requests may wait.
const EVENT_LANE: usize = 4096;
/// How many bytes of events may wait or be in work, in KiB.
const EVENT_LANE_KIB: u32 = 64 * 1024;
/// How long a caller waits for a place in a full lane.
const ENQUEUE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a caller waits for its answer. Only a disk or a server that hangs takes this long, and giving up
/// says "not known", so it is better to wait for as long as a client may.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the writer steps back while callers are still arriving.
const JOIN_ROUNDS: usize = 16;
/// How long a transaction waits for its share of the requests while others are under way.
const SHARE_WITHIN: Duration = Duration::from_millis(3);
/// Most of each kind in one transaction.
const BATCH_COMMANDS: usize = 256;
const BATCH_EVENTS: usize = 2000;
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Where callers wait.
pub struct Queue<T: Transaction> {
    priority: mpsc::Sender<Job<T>>,
    events: mpsc::Sender<AppendJob>,
    event_room: Arc<Semaphore>,
    stop: CancellationToken,
}

/// Where the writer takes from.
pub struct Lanes<T: Transaction> {
    priority: mpsc::Receiver<Job<T>>,
    events: mpsc::Receiver<AppendJob>,
    stop: CancellationToken,
}

impl<T: Transaction> std::fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("event_room", &self.event_room).finish_non_exhaustive()
    }
}

impl<T: Transaction> std::fmt::Debug for Lanes<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes").field("events", &self.events.len()).finish_non_exhaustive()
    }
}

impl<T: Transaction> Queue<T> {
    /// Both ends.
    pub fn new() -> (Self, Lanes<T>) {
        let (priority, priority_lane) = mpsc::channel(PRIORITY_LANE);
        let (events, event_lane) = mpsc::channel(EVENT_LANE);
        let stop = CancellationToken::new();
        let lanes = Lanes { priority: priority_lane, events: event_lane, stop: stop.clone() };
        let event_room = Arc::new(Semaphore::new(EVENT_LANE_KIB as usize));
        (Self { priority, events, event_room, stop }, lanes)
    }

    /// Runs a command in the next transaction and answers once that is durable.
    pub async fn run<C: Command<T>>(&self, command: C) -> Result<C::Output> {
        let (reply, answer) = oneshot::channel();
        enqueue(&self.priority, Job::command(command, reply)).await?;
        answered(answer).await
    }

    /// Appends events in the next transaction and answers once that is durable.
    pub async fn append(&self, append: Append) -> Result<Vec<AppendOutcome>> {
        let kib = u32::try_from(payload_bytes(&append) / 1024 + 1).unwrap_or(u32::MAX).min(EVENT_LANE_KIB);
        let room = self.room(kib).await?;
        let (reply, answer) = oneshot::channel();
        enqueue(&self.events, AppendJob::new(append, reply, room)).await?;
        answered(answer).await
    }

    async fn room(&self, kib: u32) -> Result<OwnedSemaphorePermit> {
        // Nearly always there is room; only who has to wait needs a timer.
        if let Ok(room) = Arc::clone(&self.event_room).try_acquire_many_owned(kib) {
            return Ok(room);
        }
        let room = Arc::clone(&self.event_room).acquire_many_owned(kib);
        match Box::pin(timeout(ENQUEUE_TIMEOUT, room)).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) => Err(WriterAway::Closed.into()),
            Err(_) => Err(WriterAway::Overrun.into()),
        }
    }

    /// Takes nothing more; what was taken still comes out.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

async fn enqueue<T>(lane: &mpsc::Sender<T>, job: T) -> Result<()> {
    let job = match lane.try_send(job) {
        Ok(()) => return Ok(()),
        Err(TrySendError::Closed(_)) => return Err(WriterAway::Closed.into()),
        Err(TrySendError::Full(job)) => job,
    };
    match Box::pin(timeout(ENQUEUE_TIMEOUT, lane.send(job))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(WriterAway::Closed.into()),
        Err(_) => Err(WriterAway::Overrun.into()),
    }
}

async fn answered<T>(answer: oneshot::Receiver<Result<T>>) -> Result<T> {
    // A timer is large and would make whatever waits here large too.
    match Box::pin(timeout(ANSWER_TIMEOUT, answer)).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(WriterAway::Closed.into()),
        Err(_) => Err(WriterAway::Silent.into()),
    }
}

impl<T: Transaction> Lanes<T> {
    /// What is to be done in the next transaction; none once both lanes are closed and empty.
    pub async fn next_batch(&mut self) -> Option<Vec<Job<T>>> {
        let first = self.next().await?;
        self.let_others_join().await;
        let mut batch = Batch::default();
        batch.push(first);
        self.fill(&mut batch, usize::MAX);
        Some(batch.into_jobs())
    }

    /// The same for one of `among` transactions, beside others that are under way with so many requests: its share of
    /// all that there are, so that some are written while others are answered and come back. Who takes all leaves
    /// the database without work until all have come back.
    pub async fn next_share(
        &mut self,
        among: usize,
        under_way: &mut watch::Receiver<usize>,
    ) -> Option<Vec<Job<T>>> {
        let first = self.next().await?;
        self.let_others_join().await;
        let mut batch = Batch::default();
        batch.push(first);
        let mut patience = pin!(sleep(SHARE_WITHIN));
        loop {
            let others = *under_way.borrow_and_update();
            let all = others + batch.requests() + self.events.len();
            self.fill(&mut batch, all.div_ceil(among));
            if batch.is_full() || batch.has_commands() || batch.requests() * (among - 1) >= others {
                return Some(batch.into_jobs());
            }
            tokio::select! {
                biased;
                job = self.next() => match job {
                    Some(job) => batch.push(job),
                    None => return Some(batch.into_jobs()),
                },
                Ok(()) = under_way.changed() => {}
                () = &mut patience => return Some(batch.into_jobs()),
            }
        }
    }

    /// Everything that waits.
    pub fn drain(&mut self, jobs: &mut Vec<Job<T>>) {
        while let Ok(job) = self.priority.try_recv() {
            jobs.push(job);
        }
        while let Ok(job) = self.events.try_recv() {
            jobs.push(Job::Append(job));
        }
    }

    /// The next thing to do; none once both lanes are closed and empty.
    async fn next(&mut self) -> Option<Job<T>> {
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

    /// Takes what waits, until there are so many requests.
    fn fill(&mut self, batch: &mut Batch<T>, requests: usize) {
        while batch.commands.len() < BATCH_COMMANDS {
            let Ok(job) = self.priority.try_recv() else { break };
            batch.push(job);
        }
        while !batch.is_full() && batch.requests() < requests {
            let Ok(append) = self.events.try_recv() else { break };
            batch.push(Job::Append(append));
        }
    }
}

/// What goes into one transaction: commands first.
struct Batch<T: Transaction> {
    commands: Vec<Job<T>>,
    appends: Vec<Job<T>>,
    events: usize,
    bytes: usize,
}

impl<T: Transaction> Default for Batch<T> {
    fn default() -> Self {
        Self { commands: Vec::new(), appends: Vec::new(), events: 0, bytes: 0 }
    }
}

impl<T: Transaction> Batch<T> {
    fn push(&mut self, job: Job<T>) {
        let Job::Append(append) = &job else { return self.commands.push(job) };
        let (events, bytes) = append.weight();
        self.events += events;
        self.bytes += bytes;
        self.appends.push(job);
    }

    /// How many requests to append are in it.
    fn requests(&self) -> usize {
        self.appends.len()
    }

    fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Whether no more events go into it.
    fn is_full(&self) -> bool {
        self.events >= BATCH_EVENTS || self.bytes >= BATCH_BYTES
    }

    fn into_jobs(mut self) -> Vec<Job<T>> {
        self.commands.append(&mut self.appends);
        self.commands
    }
}

#[cfg(test)]
impl<T: Transaction> Queue<T> {
    /// Whether nothing holds any of the room for events.
    pub(super) fn has_all_its_room(&self) -> bool {
        self.event_room.available_permits() == EVENT_LANE_KIB as usize
    }
}
