//! What a file held before a tool touched it.

use std::path::Path;

/// Of a file whose changes are shown.
const FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Before {
    Absent,
    Text(String),
}

impl Before {
    /// What a file holds; none when it is nothing whose changes can be shown.
    pub(crate) async fn look(path: &Path) -> Option<Self> {
        match tokio::fs::metadata(path).await {
            Ok(found) if found.is_file() && found.len() <= FILE_MAX_BYTES => {
                tokio::fs::read_to_string(path).await.ok().map(Self::Text)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Self::Absent),
            Ok(_) | Err(_) => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::Text(text) => Some(text),
        }
    }
}
