//! What can go wrong.

use std::path::Path;

/// Why an archive was not written, is not believed or was not restored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Rows could not be read or written.
    #[error(transparent)]
    Store(#[from] sunaba_store::Error),
    /// A mirror is in use for too long.
    #[error(transparent)]
    Git(#[from] sunaba_git::Error),
    /// A file could not be read or written.
    #[error("{what}")]
    File {
        /// What was tried, with the path.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// Whoever takes the archive went away or stopped taking it.
    #[error("nobody takes the archive any more")]
    Gone,
    /// It is not an archive, not whole, or not as it was made.
    #[error("{0}")]
    Unusable(String),
}

impl Error {
    /// Says which file it was.
    pub(crate) fn file(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let what = format!("{what} {}", path.display());
        move |source| Self::File { what, source }
    }
}
