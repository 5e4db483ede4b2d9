//! What PostgreSQL's errors are about, and how they are told to callers.

use sunaba_store::Error;

pub(crate) use sunaba_store_sql::fault::{Fault, Unreadable, WriterAway};

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
        | sqlx::Error::TypeNotFound { .. }
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
        // A table, type, function or right that is not there: the layout is another one than this program's (a
        // standby that took over too early, an old copy that was put back). No event is to blame for that.
        _ if code.starts_with("42") => Trouble::Outage,
        _ => Trouble::Statement,
    }
}

/// Whether an event's id is taken.
pub(crate) fn is_taken_id(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(database) if database.constraint() == Some("events_by_event_id"))
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
            ("42883", Trouble::Outage),
            ("23505", Trouble::Statement),
            ("P0001", Trouble::Statement),
            ("22021", Trouble::Statement),
        ] {
            assert_eq!(trouble_of_code(code), expected, "{code}");
        }
    }
}
