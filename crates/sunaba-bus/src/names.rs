//! Keys and channels.

/// Where an entry of the feed is published.
pub(crate) fn channel(event_type: &str) -> String {
    format!("events.{event_type}")
}

/// The names of one installation: all nodes on one database.
#[derive(Debug)]
pub(crate) struct Names {
    /// The last position that was published.
    pub(crate) published: String,
    /// Who publishes.
    pub(crate) publisher: String,
    /// Where nodes tell each other new positions.
    pub(crate) hint: String,
}

impl Names {
    pub(crate) fn of(installation: &str) -> Self {
        Self {
            published: format!("sunaba:{installation}:published"),
            publisher: format!("sunaba:{installation}:publisher"),
            hint: format!("sunaba:{installation}:hint"),
        }
    }
}
