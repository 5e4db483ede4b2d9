//! What can go wrong, as far as callers act on it.

/// The result of a storage call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A storage error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such thing.
    #[error("there is no {what} {id}")]
    NotFound {
        /// What kind of thing.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The rules or the present state do not allow it; nothing was changed.
    #[error("{detail}")]
    Conflict {
        /// A stable code for clients.
        code: &'static str,
        /// What is in the way.
        detail: String,
    },
    /// A bound was reached; nothing was changed.
    #[error("{detail}")]
    Full {
        /// A stable code for clients.
        code: &'static str,
        /// Which bound.
        detail: String,
    },
    /// The store cannot be reached or cannot commit now; try again later.
    #[error("the store is not available")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store answered with something it never should.
    #[error("the store failed")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A newer program has taken something away that this one needs: it may not write to the store any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the database needs layout {needed} and this program knows {known}: a newer program has taken away what this \
     one needs; start the newer one in its place"
)]
pub struct Outdated {
    /// The oldest layout that may be used.
    pub needed: i64,
    /// The newest layout that this program knows.
    pub known: i64,
}

impl From<Outdated> for Error {
    fn from(outdated: Outdated) -> Self {
        Self::Unavailable(Box::new(outdated))
    }
}

impl Error {
    /// Whether trying again is in vain, because this program is too old for the store.
    pub fn outdated(&self) -> Option<Outdated> {
        match self {
            Self::Unavailable(source) => source.downcast_ref().copied(),
            _ => None,
        }
    }

    /// There is no such thing.
    pub fn not_found(what: &'static str, id: impl ToString) -> Self {
        Self::NotFound { what, id: id.to_string() }
    }

    /// The rules do not allow it.
    pub fn conflict(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Conflict { code, detail: detail.into() }
    }

    /// A conversation cannot be gone on with now.
    pub fn session_in_use(holder: &str) -> Self {
        let detail = format!(
            "sandbox {holder} works with this conversation now: set fork to begin a copy of it, send the sandbox a \
             message, or wait for its end"
        );
        Self::conflict("session_in_use", detail)
    }
}

impl From<sunaba_engine::IllegalStep> for Error {
    fn from(step: sunaba_engine::IllegalStep) -> Self {
        Self::Conflict { code: "illegal_transition", detail: step.to_string() }
    }
}
