//! Where a conversation begins.

/// A conversation as its runtime stores it; only that runtime can read it.
#[derive(Clone, PartialEq, Eq)]
pub struct Transcript(Vec<u8>);

impl Transcript {
    /// What a runtime stored.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// As it was stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

// It holds everything that was said, which is nothing for a log.
impl std::fmt::Debug for Transcript {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Transcript({} bytes)", self.0.len())
    }
}

/// Where a conversation begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionStart {
    /// With nothing.
    New,
    /// Where it was left.
    Resume {
        /// All of it so far.
        transcript: Transcript,
    },
    /// Where another one was left, which stays as it is.
    Fork {
        /// The name of the other one.
        from: String,
        /// All of the other one.
        transcript: Transcript,
    },
}
