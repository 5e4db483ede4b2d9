//! What waits for the writer, and where its answer goes.

use async_trait::async_trait;
use sunaba_store::{Append, AppendOutcome, Error, Rejection, Result};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::Transaction;
use crate::fault::Fault;

/// A write that is not an append. It may be run again when its transaction was
/// undone, and it checks everything before it changes anything: a refused
/// command must leave nothing behind.
#[async_trait]
pub trait Command<T: Transaction>: Send + Sync + 'static {
    /// What the caller gets.
    type Output: Send + Sync + 'static;

    /// What must be locked and known before it runs.
    fn needs(&self, _needs: &mut T::Needs) {}

    /// Does it.
    async fn run(&self, unit: &mut T) -> Result<Self::Output, Fault>;
}

/// A command of any kind, its caller and its outcome so far.
#[async_trait]
pub trait AnyCommand<T: Transaction>: Send + Sync {
    /// What must be locked and known before it runs.
    fn needs(&self, needs: &mut T::Needs);
    /// Does it and keeps the outcome.
    async fn run(&mut self, unit: &mut T) -> Result<(), sqlx::Error>;
    /// Its outcome is that the database refuses it.
    fn refuse(&mut self, error: sqlx::Error);
    /// Answers with the outcome.
    fn settle(self: Box<Self>);
    /// Answers that nothing was done.
    fn fail(self: Box<Self>, error: Error);
}

struct Pending<C, O> {
    command: C,
    reply: oneshot::Sender<Result<O>>,
    outcome: Option<Result<O>>,
}

#[async_trait]
impl<T: Transaction, C: Command<T>> AnyCommand<T> for Pending<C, C::Output> {
    fn needs(&self, needs: &mut T::Needs) {
        self.command.needs(needs);
    }

    async fn run(&mut self, unit: &mut T) -> Result<(), sqlx::Error> {
        self.outcome = Some(match self.command.run(unit).await {
            Ok(output) => Ok(output),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Sql(error)) => return Err(error),
        });
        Ok(())
    }

    fn refuse(&mut self, error: sqlx::Error) {
        self.outcome = Some(Err(T::told(error)));
    }

    fn settle(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            // A caller that went away needs no answer.
            let _ = self.reply.send(outcome);
        }
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.reply.send(Err(error));
    }
}

/// Events of one request, their caller and their outcomes so far.
#[derive(Debug)]
pub struct AppendJob {
    /// The events.
    pub append: Append,
    outcomes: Vec<AppendOutcome>,
    reply: oneshot::Sender<Result<Vec<AppendOutcome>>>,
    /// Its part of the bytes that may wait.
    _room: OwnedSemaphorePermit,
}

impl AppendJob {
    pub(super) fn new(
        append: Append,
        reply: oneshot::Sender<Result<Vec<AppendOutcome>>>,
        room: OwnedSemaphorePermit,
    ) -> Self {
        let unanswered = Err(Rejection::Refused("not stored".to_owned()));
        let outcomes = vec![unanswered; append.events.len()];
        Self { append, outcomes, reply, _room: room }
    }

    /// Number of events and of payload bytes.
    pub(super) fn weight(&self) -> (usize, usize) {
        (self.append.events.len(), payload_bytes(&self.append))
    }

    /// What became of its events so far, in their order.
    pub fn outcomes(&self) -> &[AppendOutcome] {
        &self.outcomes
    }

    /// What became of one of its events.
    pub fn decide(&mut self, index: usize, outcome: AppendOutcome) {
        self.outcomes[index] = outcome;
    }
}

/// The payloads of a request, in bytes.
pub(super) fn payload_bytes(append: &Append) -> usize {
    append.events.iter().map(|event| event.payload.as_str().len()).sum()
}

/// Something that waits.
pub enum Job<T: Transaction> {
    /// Anything but events.
    Command(Box<dyn AnyCommand<T>>),
    /// Events.
    Append(AppendJob),
}

impl<T: Transaction> Job<T> {
    pub(super) fn command<C: Command<T>>(command: C, reply: oneshot::Sender<Result<C::Output>>) -> Self {
        Self::Command(Box::new(Pending { command, reply, outcome: None }))
    }

    /// Answers; only called once the transaction is durable.
    pub fn settle(self) {
        match self {
            Self::Command(command) => command.settle(),
            Self::Append(job) => drop(job.reply.send(Ok(job.outcomes))),
        }
    }

    /// Answers that nothing was done.
    pub fn fail(self, error: Error) {
        match self {
            Self::Command(command) => command.fail(error),
            Self::Append(job) => drop(job.reply.send(Err(error))),
        }
    }
}

impl<T: Transaction> std::fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(_) => f.write_str("Command"),
            Self::Append(job) => job.fmt(f),
        }
    }
}
