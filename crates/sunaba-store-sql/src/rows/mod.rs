//! Rows as a database gives them, and how they become the product's words.
//!
//! A value that cannot be read is an error that names table, column and row,
//! never a default. Times are microseconds since 1970.

mod call;
mod event;
mod feed;
mod message;
pub mod node;
mod project;
mod question;
mod sandbox;
mod secret;
mod task;
mod ticket;
mod transcript;

use sunaba_types::Timestamp;
use sunaba_types::chain::Hash;

pub use call::OpenCallRow;
pub use event::EventRow;
pub use feed::FeedRow;
pub(crate) use feed::entry_id;
pub use message::MessageRow;
pub use project::ProjectRow;
pub use question::QuestionRow;
pub use sandbox::SandboxRow;
pub use secret::SecretNameRow;
pub use task::TaskRow;
pub use ticket::TicketRow;
pub use transcript::TranscriptRow;

use crate::fault::Unreadable;

/// What was read, or which value could not be.
pub fn readable<T>(
    value: Option<T>,
    table: &'static str,
    column: &'static str,
    row: &str,
) -> Result<T, Unreadable> {
    value.ok_or_else(|| Unreadable { table, column, row: row.to_owned() })
}

/// A moment.
pub fn time(
    micros: i64,
    table: &'static str,
    column: &'static str,
    row: &str,
) -> Result<Timestamp, Unreadable> {
    readable(Timestamp::from_microsecond(micros).ok(), table, column, row)
}

/// A moment that need not have come.
pub fn maybe_time(
    micros: Option<i64>,
    table: &'static str,
    column: &'static str,
    row: &str,
) -> Result<Option<Timestamp>, Unreadable> {
    micros.map(|at| time(at, table, column, row)).transpose()
}

/// A link of the chain.
pub fn hash(bytes: &[u8], table: &'static str, column: &'static str, row: &str) -> Result<Hash, Unreadable> {
    readable(bytes.try_into().ok(), table, column, row)
}

/// All rows, or the first that cannot be read.
pub fn all<R, T>(rows: Vec<R>) -> Result<Vec<T>, Unreadable>
where
    T: TryFrom<R, Error = Unreadable>,
{
    rows.into_iter().map(T::try_from).collect()
}
