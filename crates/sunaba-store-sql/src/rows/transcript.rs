//! Conversations.

use sunaba_types::{BlobHash, SandboxId, TranscriptRecord};

use super::{Unreadable, readable, time};

/// A row of `transcripts`.
#[derive(Debug)]
pub struct TranscriptRow {
    pub sandbox_id: String,
    pub session_id: String,
    pub runtime: String,
    pub hash: String,
    pub size_bytes: i64,
    pub turns: i64,
    pub updated_at: i64,
}

impl TryFrom<TranscriptRow> for TranscriptRecord {
    type Error = Unreadable;

    fn try_from(row: TranscriptRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "transcripts";
        let key = format!("{} {}", row.sandbox_id, row.session_id);
        Ok(Self {
            sandbox_id: readable(SandboxId::parse(row.sandbox_id).ok(), TABLE, "sandbox_id", &key)?,
            session_id: row.session_id,
            runtime: row.runtime,
            hash: readable(BlobHash::parse(&row.hash), TABLE, "hash", &key)?,
            size_bytes: row.size_bytes,
            turns: row.turns,
            updated_at: time(row.updated_at, TABLE, "updated_at", &key)?,
        })
    }
}
