//! What can go wrong inside, and how it is told to callers.
//!
//! A [`Fault`] keeps apart what the rules refuse (the transaction goes on
//! without that command) from what SQLite refuses (the transaction is undone).

use sunaba_store::Error;

/// Why a command did not go through.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The rules refuse it. It changed nothing; its neighbours go on.
    Refused(Error),
    /// SQLite refuses it. The transaction is undone.
    Sql(sqlx::Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<sunaba_engine::IllegalStep> for Fault {
    fn from(step: sunaba_engine::IllegalStep) -> Self {
        Self::Refused(step.into())
    }
}

impl From<Unreadable> for Fault {
    fn from(unreadable: Unreadable) -> Self {
        Self::Refused(unreadable.into())
    }
}

/// A stored value that this program cannot have written.
#[derive(Debug, thiserror::Error)]
#[error("{table}.{column} of {row} holds something unreadable")]
pub(crate) struct Unreadable {
    pub(crate) table: &'static str,
    pub(crate) column: &'static str,
    pub(crate) row: String,
}

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Self {
        Self::Backend(Box::new(unreadable))
    }
}

/// The writer has stopped, is overrun or did not answer in time.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(crate) enum WriterAway {
    #[error("the store is closed")]
    Closed,
    #[error("the store has more waiting than it can commit")]
    Overrun,
    #[error("the store did not answer in time; whether the write happened is not known")]
    Silent,
}

impl From<WriterAway> for Error {
    fn from(away: WriterAway) -> Self {
        Self::Unavailable(Box::new(away))
    }
}

/// Whether this is about the disk, the lock or the connection rather than about one statement.
pub(crate) fn is_outage(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(database) => primary_code(database.as_ref())
            // BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB
            .is_none_or(|code| matches!(code, 5..=11 | 13 | 14 | 26)),
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_) => true,
        _ => false,
    }
}

fn primary_code(error: &dyn sqlx::error::DatabaseError) -> Option<i32> {
    error.code()?.parse::<i32>().ok().map(|code| code & 0xff)
}

/// Tells a reader's or a whole transaction's error to the caller.
pub(crate) fn told(error: sqlx::Error) -> Error {
    if is_outage(&error) { Error::Unavailable(Box::new(error)) } else { Error::Backend(Box::new(error)) }
}

/// The same outage, told to one of many who waited for the same commit.
pub(crate) fn told_again(error: &sqlx::Error) -> Error {
    Error::Unavailable(error.to_string().into())
}
