//! What can go wrong inside, and how it is told to callers.
//!
//! A [`Fault`] keeps apart what the rules refuse (the transaction goes on
//! without that command) from what PostgreSQL refuses (the transaction is undone).

use sunaba_store::Error;

/// Why a command did not go through.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The rules refuse it. It changed nothing; its neighbours go on.
    Refused(Error),
    /// PostgreSQL refuses it. The transaction is undone.
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

impl From<Unreadable> for sqlx::Error {
    fn from(unreadable: Unreadable) -> Self {
        Self::Decode(Box::new(unreadable))
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

/// What an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server, the disk or the connection.
    Outage,
    /// Somebody else was in the way: the same again may go through.
    Busy,
    /// It took longer than a statement may: less at once may go through.
    Slow,
    /// This one statement.
    Statement,
}

/// See [`Trouble`].
pub(crate) fn trouble(error: &sqlx::Error) -> Trouble {
    match error {
        sqlx::Error::Database(database) => trouble_of_code(database.code().as_deref().unwrap_or_default()),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_) => Trouble::Outage,
        _ => Trouble::Statement,
    }
}

fn trouble_of_code(code: &str) -> Trouble {
    match code {
        // A circle of waiting, a conflict of snapshots, a lock that did not come.
        "40P01" | "40001" | "55P03" => Trouble::Busy,
        "57014" => Trouble::Slow,
        // A server that may only be read from.
        "25006" => Trouble::Outage,
        // Connection, resources, somebody's intervention, the system, the server's own failure.
        _ if ["08", "53", "57", "58", "XX"].iter().any(|class| code.starts_with(class)) => Trouble::Outage,
        // A login that was refused, a database that is gone.
        _ if code.starts_with("28") || code.starts_with("3D") => Trouble::Outage,
        _ => Trouble::Statement,
    }
}

/// Tells a reader's or a whole transaction's error to the caller.
pub(crate) fn told(error: sqlx::Error) -> Error {
    match trouble(&error) {
        Trouble::Statement => Error::Backend(Box::new(error)),
        Trouble::Outage | Trouble::Busy | Trouble::Slow => Error::Unavailable(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart() {
        for (code, expected) in [
            ("40P01", Trouble::Busy),
            ("57014", Trouble::Slow),
            ("57P01", Trouble::Outage),
            ("53100", Trouble::Outage),
            ("23505", Trouble::Statement),
            ("P0001", Trouble::Statement),
            ("22021", Trouble::Statement),
        ] {
            assert_eq!(trouble_of_code(code), expected, "{code}");
        }
    }
}
