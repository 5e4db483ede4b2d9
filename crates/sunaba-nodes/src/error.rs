//! What can go wrong between nodes.

use sunaba_types::NodeId;

/// Why another node gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is stopped, silent or cannot be reached; it may come back.
    #[error("the node {node} is away ({why})")]
    Away {
        /// Which.
        node: NodeId,
        /// As far as it is known.
        why: String,
    },
    /// It is not known, or was given up.
    #[error("the node {0} is gone; what only it had cannot be reached")]
    Gone(NodeId),
    /// It answered, and refused.
    #[error("{detail}")]
    Refused {
        /// Its answer's number.
        status: u16,
        /// Its answer's code.
        code: String,
        /// Its words.
        detail: String,
    },
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] sunaba_store::Error),
}

impl Error {
    /// Whether asking again later may help.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Away { .. } | Self::Store(sunaba_store::Error::Unavailable(_)) => true,
            Self::Refused { status, .. } => *status == 503,
            Self::Gone(_) | Self::Store(_) => false,
        }
    }
}
