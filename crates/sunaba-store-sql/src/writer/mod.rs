//! What leads to a store's writer: bounded lanes, the jobs in them, and one transaction for many jobs.
//!
//! There are two lanes: one for messages, claims and state changes, one for events. A batch is everything that
//! waits, or its share of that beside others that are under way; the first lane first. A full lane (by number or by bytes) makes the caller wait briefly and then
//! fails it as unavailable: memory stays bounded.

mod batch;
mod job;
mod lanes;
#[cfg(test)]
mod tests;

use sunaba_store::{AppendOutcome, Error, Writer};
use sunaba_types::{NewEvent, SandboxId};

pub use batch::{Piece, halves, pass};
pub use job::{AnyCommand, AppendJob, Command, Job};
pub use lanes::{Lanes, Queue};

/// What a database answers.
type Sql<T> = Result<T, sqlx::Error>;

/// A store's transaction, as the jobs of a batch need it.
pub trait Transaction: Send + 'static {
    /// What jobs want to be locked and known before they run.
    type Needs;
    /// A point to come back to.
    type Saved: Send;

    /// Tells a caller what the database refused.
    fn told(error: sqlx::Error) -> Error;

    /// Whether an error is about one statement, so that the rest may go through without it.
    fn is_of_a_statement(error: &sqlx::Error) -> bool;

    /// Finds out which of the ids of these events are taken, if that is not known yet.
    fn recall_ids(&mut self, events: &[(&SandboxId, &[NewEvent])]) -> impl Future<Output = Sql<()>> + Send;

    /// Takes one event in. An `Err` is the database's; whatever the rules refuse is in the outcome.
    fn ingest(
        &mut self,
        id: &SandboxId,
        writer: Writer,
        event: &NewEvent,
    ) -> impl Future<Output = Sql<AppendOutcome>> + Send;

    /// Writes what was collected.
    fn flush(&mut self) -> impl Future<Output = Sql<()>> + Send;

    /// Sets a point to come back to.
    fn save(&mut self) -> impl Future<Output = Sql<Self::Saved>> + Send;

    /// Keeps what was done since the point.
    fn release(&mut self) -> impl Future<Output = Sql<()>> + Send;

    /// Undoes what was done since the point.
    fn restore(&mut self, saved: Self::Saved) -> impl Future<Output = Sql<()>> + Send;
}
