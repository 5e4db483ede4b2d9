//! What the rest of the server sees of the bus.

use tokio::sync::watch;

/// How publishing stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether Redis answers right now.
    pub connected: bool,
    /// Whether this node is the one that publishes.
    pub leads: bool,
    /// The last position that is known to be published, by any node.
    pub published: Option<i64>,
    /// How many positions of the feed come after it.
    pub behind: i64,
    /// What was wrong last; it stays when Redis is back.
    pub last_error: Option<String>,
}

/// Cheap to copy; the service goes on without it.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) status: watch::Receiver<Status>,
    /// The store's hints: what is published is compared with them.
    pub(crate) feed: watch::Receiver<i64>,
    pub(crate) heard: watch::Receiver<i64>,
}

impl Handle {
    /// How it stands now.
    pub fn status(&self) -> Status {
        let status = self.status.borrow().clone();
        let behind = status.published.map_or(0, |published| (*self.feed.borrow() - published).max(0));
        Status { behind, ..status }
    }

    /// The last position that any node told over Redis. Whoever waits for the store's hints is woken already.
    pub fn hints(&self) -> watch::Receiver<i64> {
        self.heard.clone()
    }
}
