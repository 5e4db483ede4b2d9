//! The storage ports: what the product asks of a database, in its own words.
//!
//! A backend implements every trait here and passes the `conformance` suite. No SQL,
//! no backend type and no backend error leaves a backend crate.
//!
//! Verbs: `find_*` gives an `Option`, `get_*` fails with [`Error::NotFound`].
//! Every write that changes state also writes its feed entry in the same
//! transaction. Writers are handed the clock when the backend is opened.

mod chain;
mod error;
mod events;
mod feed;
mod frame;
mod messages;
mod nodes;
mod questions;
mod registry;
mod secrets;
mod sessions;
mod spending;
mod tokens;
pub mod transfer;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use chain::{Walked, walk_chain};
pub use error::{Error, Outdated, Result};
pub use events::{
    Append, AppendOutcome, Appended, EVENT_TYPES_MAX, EventPage, EventQuery, EventStore, LogHead, Noise,
    OutlineTurn, Rejection, STEP_REACH, StepAt, TrajectoryDirection, TrajectoryPage, TrajectoryQuery, Writer,
};
pub use feed::{FeedEntry, FeedStore, PublishedPayload};
pub use messages::{MessageStore, Queued, TakeMode};
pub use nodes::{HeldBy, NodeStore};
pub use questions::{QuestionFilter, QuestionStore};
pub use registry::{
    BlobStore, NewProject, NewSandbox, NewTask, NewTicket, NewWork, ProjectPatch, RegistryStore,
    SandboxChange, SandboxFilter, TaskFilter,
};
pub use secrets::{SECRETS_MAX, SecretName, SecretStore};
pub use sessions::{FollowedUp, NewTranscript, SessionStore, Suspension, Waits};
pub use spending::{
    OpenCall, Reserve, Reserved, Settlement, Spender, Spending, SpendingStore, dollars, no_room,
};
pub use tokens::{NewToken, TokenStore};

/// About how many bytes of payloads or contents one page holds: a page ends early at this size, with at
/// least one thing on it.
pub const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Everything a server needs of its store.
#[async_trait::async_trait]
pub trait Store:
    EventStore
    + FeedStore
    + MessageStore
    + QuestionStore
    + RegistryStore
    + BlobStore
    + TokenStore
    + SecretStore
    + SpendingStore
    + NodeStore
    + SessionStore
    + std::fmt::Debug
    + Send
    + Sync
    + 'static
{
    /// What kind of store it is: `sqlite` or `postgres`.
    fn kind(&self) -> &'static str;

    /// Whether the store can read and commit right now; the error says what is wrong.
    async fn check(&self) -> Result<()>;

    /// A small named value that outlives restarts (node id, check values).
    async fn find_setting(&self, name: &str) -> Result<Option<String>>;

    /// Sets it, unless it is set already; gives the value that holds.
    async fn set_setting_once(&self, name: &str, value: &str) -> Result<String>;

    /// Everything there is, as it is at this moment, whatever is written meanwhile.
    async fn read_whole(&self) -> Result<Box<dyn transfer::Source>>;

    /// Stops taking work, commits what was taken and closes.
    async fn close(&self);
}
