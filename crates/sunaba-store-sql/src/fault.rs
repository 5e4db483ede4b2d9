//! What can go wrong inside, and how it is told to callers.
//!
//! A [`Fault`] keeps apart what the rules refuse (the transaction goes on
//! without that command) from what the database refuses (the transaction is undone).

use sunaba_store::Error;

/// Why a command did not go through.
#[derive(Debug)]
pub enum Fault {
    /// The rules refuse it. It changed nothing; its neighbours go on.
    Refused(Error),
    /// The database refuses it. The transaction is undone.
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
pub struct Unreadable {
    pub table: &'static str,
    pub column: &'static str,
    pub row: String,
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
pub enum WriterAway {
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
