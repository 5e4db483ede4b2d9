//! What waits for the writer, and where its answer goes.

use async_trait::async_trait;
use sunaba_store::{Append, AppendOutcome, Error, Rejection, Result};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::fault::{Fault, told};
use crate::unit::{Needs, Unit};

/// A write that is not an append. It may be run again when its transaction was
/// undone, and it checks everything before it changes anything: a refused
/// command must leave nothing behind.
#[async_trait]
pub(crate) trait Command: Send + Sync + 'static {
    /// What the caller gets.
    type Output: Send + Sync + 'static;

    /// What must be locked and known before it runs.
    fn needs(&self, _needs: &mut Needs) {}

    async fn run(&self, unit: &mut Unit) -> Result<Self::Output, Fault>;
}

/// A command of any kind, its caller and its outcome so far.
#[async_trait]
pub(crate) trait AnyCommand: Send + Sync {
    fn needs(&self, needs: &mut Needs);
    async fn run(&mut self, unit: &mut Unit) -> Result<(), sqlx::Error>;
    fn refuse(&mut self, error: sqlx::Error);
    fn settle(self: Box<Self>);
    fn fail(self: Box<Self>, error: Error);
}

pub(crate) struct Pending<C: Command> {
    command: C,
    reply: oneshot::Sender<Result<C::Output>>,
    outcome: Option<Result<C::Output>>,
}

impl<C: Command> Pending<C> {
    pub(crate) fn new(command: C, reply: oneshot::Sender<Result<C::Output>>) -> Self {
        Self { command, reply, outcome: None }
    }
}

#[async_trait]
impl<C: Command> AnyCommand for Pending<C> {
    fn needs(&self, needs: &mut Needs) {
        self.command.needs(needs);
    }

    async fn run(&mut self, unit: &mut Unit) -> Result<(), sqlx::Error> {
        self.outcome = Some(match self.command.run(unit).await {
            Ok(output) => Ok(output),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Sql(error)) => return Err(error),
        });
        Ok(())
    }

    fn refuse(&mut self, error: sqlx::Error) {
        self.outcome = Some(Err(told(error)));
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
pub(crate) struct AppendJob {
    pub(crate) append: Append,
    outcomes: Vec<AppendOutcome>,
    reply: oneshot::Sender<Result<Vec<AppendOutcome>>>,
    /// Its part of the bytes that may wait.
    _room: OwnedSemaphorePermit,
}

impl AppendJob {
    pub(crate) fn new(
        append: Append,
        reply: oneshot::Sender<Result<Vec<AppendOutcome>>>,
        room: OwnedSemaphorePermit,
    ) -> Self {
        let unanswered = Err(Rejection::Refused("not stored".to_owned()));
        let outcomes = vec![unanswered; append.events.len()];
        Self { append, outcomes, reply, _room: room }
    }

    /// Number of events and of payload bytes.
    pub(crate) fn weight(&self) -> (usize, usize) {
        (self.append.events.len(), payload_bytes(&self.append))
    }

    pub(crate) fn decide(&mut self, index: usize, outcome: AppendOutcome) {
        self.outcomes[index] = outcome;
    }
}

/// The payloads of a request, in bytes.
pub(crate) fn payload_bytes(append: &Append) -> usize {
    append.events.iter().map(|event| event.payload.as_str().len()).sum()
}

pub(crate) enum Job {
    Command(Box<dyn AnyCommand>),
    Append(AppendJob),
}

impl Job {
    /// What must be locked and known before it is done.
    pub(crate) fn needs(&self, needs: &mut Needs) {
        match self {
            Self::Command(command) => command.needs(needs),
            Self::Append(job) => needs.append(&job.append),
        }
    }

    /// Answers; only called once the transaction is durable.
    pub(crate) fn settle(self) {
        match self {
            Self::Command(command) => command.settle(),
            Self::Append(job) => drop(job.reply.send(Ok(job.outcomes))),
        }
    }

    pub(crate) fn fail(self, error: Error) {
        match self {
            Self::Command(command) => command.fail(error),
            Self::Append(job) => drop(job.reply.send(Err(error))),
        }
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(_) => f.write_str("Command"),
            Self::Append(job) => job.fmt(f),
        }
    }
}
