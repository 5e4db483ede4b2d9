//! Starts sandboxes, watches over them, finishes their work.
//!
//! Rows are the truth and hints only shorten the wait: the loop in
//! [`Orchestrator::run`] looks at every living sandbox of its providers on each
//! hint and at least once a second, and gives each one a driver of its own. A driver that dies
//! with the server is simply made again, because a sandbox outlives its server.
//!
//! ```text
//! pending ──bring_up──▶ creating ──first event──▶ running ──agent done──▶ completing ──finish──▶ completed
//! ```

mod bring_up;
mod call_back;
mod capacity;
mod driver;
mod early;
mod ending;
mod environment;
mod finish;
mod going_on;
mod home;
mod lost;
#[cfg(test)]
mod made;
mod patience;
mod placement;
mod policy;
mod ports;
mod reconcile;
mod record;
mod repository_file;
mod setup;
mod silence;
mod watch;
mod work;

pub use home::Home;
pub use ports::{Doors, Parts, Settings};
pub use setup::Shelf;
pub use watch::Orchestrator;

/// What stopped a piece of the orchestrator's work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] sunaba_store::Error),
    /// The provider refused or failed.
    #[error("sandbox provider: {0}")]
    Provider(#[from] sunaba_sandbox::Error),
    /// Git refused or failed.
    #[error("git: {0}")]
    Git(#[from] sunaba_git::Error),
    /// Another node refused or stayed away.
    #[error(transparent)]
    Nodes(#[from] sunaba_nodes::Error),
    /// The sandbox's socket could not be opened.
    #[error("cannot open the sandbox's socket: {0}")]
    Door(#[source] std::io::Error),
    /// A project's secrets cannot be read.
    #[error("the project's secrets: {0}")]
    Secrets(#[source] sunaba_secrets::Error),
    /// What setup commands made cannot be read.
    #[error("what a setup command made cannot be used: {0}")]
    Layers(#[source] std::io::Error),
    /// The sandbox ended by itself before its agent was done: it may be tried again.
    #[error("{0}")]
    Died(String),
    /// Something that the work needs is not there.
    #[error("{0}")]
    Missing(String),
    /// It took longer than it may.
    #[error("{what} took longer than {seconds} s")]
    TooSlow {
        /// What was being done.
        what: &'static str,
        /// How long it may take.
        seconds: u64,
    },
}
