//! What SQLite's errors are about, and how they are told to callers.

use sunaba_store::Error;

pub(crate) use sunaba_store_sql::fault::{Fault, Unreadable};

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
