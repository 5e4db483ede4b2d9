//! The feed: everything that is published, in one order.

use async_trait::async_trait;
use sunaba_store::{FeedEntry, FeedStore, PAGE_BYTES, PublishedPayload, Result};
use sunaba_types::{EventPayload, ProjectId, SandboxId, Source};
use tokio::sync::watch;

use crate::PostgresStore;
use crate::fault::{Unreadable, told};
use crate::page::{InTime as _, in_time};
use crate::rows::{all, readable, time};

#[derive(Debug)]
struct FeedRow {
    position: i64,
    project_id: Option<String>,
    event_type: String,
    entity_type: String,
    entity_id: String,
    sandbox_id: Option<String>,
    seq: Option<i64>,
    notice: Option<String>,
    created_at: i64,
    event_id: Option<String>,
    original_type: Option<String>,
    source: Option<String>,
    payload: Option<Vec<u8>>,
}

impl TryFrom<FeedRow> for FeedEntry {
    type Error = Unreadable;

    fn try_from(row: FeedRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "feed";
        let key = row.position.to_string();
        let text = row.payload.and_then(|bytes| String::from_utf8(bytes).ok()).or(row.notice);
        let text = readable(text, TABLE, "payload", &key)?;
        let payload = readable(EventPayload::from_stored(text).ok(), TABLE, "payload", &key)?;
        let payload = match row.original_type {
            Some(event_type) => {
                let source = row.source.as_deref().and_then(Source::parse);
                PublishedPayload::Event { payload, source: readable(source, TABLE, "seq", &key)?, event_type }
            }
            None => PublishedPayload::Notice(payload),
        };
        Ok(Self {
            position: row.position,
            project_id: row.project_id.and_then(|id| ProjectId::parse(id).ok()),
            event_type: row.event_type,
            entity_type: row.entity_type,
            entity_id: row.entity_id,
            sandbox_id: row.sandbox_id.and_then(|id| SandboxId::parse(id).ok()),
            id: row.event_id.unwrap_or_else(|| format!("feed-{key}")),
            seq: row.seq,
            payload,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
        })
    }
}

#[async_trait]
impl FeedStore for PostgresStore {
    async fn feed_after(&self, position: i64, limit: u32) -> Result<Vec<FeedEntry>> {
        // The page ends by bytes here and not in the caller: what the server has begun to send is sent.
        let rows = sqlx::query_as!(
            FeedRow,
            r#"SELECT position AS "position!", project_id, event_type AS "event_type!", entity_type AS "entity_type!",
                      entity_id AS "entity_id!", sandbox_id, seq, notice, created_at AS "created_at!",
                      event_id AS "event_id?", original_type AS "original_type?", source AS "source?",
                      payload AS "payload?"
               FROM (SELECT page.*, sum(bytes) OVER (ORDER BY position) - bytes AS bytes_before
                     FROM (SELECT f.position, f.project_id, f.event_type, f.entity_type, f.entity_id, f.sandbox_id,
                                  f.seq, f.payload AS notice, f.created_at, e.event_id,
                                  e.event_type AS original_type, e.source, e.payload,
                                  coalesce(octet_length(f.payload), 0) + coalesce(octet_length(e.payload), 0) AS bytes
                           FROM feed AS f LEFT JOIN events AS e ON e.sandbox_id = f.sandbox_id AND e.seq = f.seq
                           WHERE f.position > $1 ORDER BY f.position LIMIT $2) AS page) AS counted
               WHERE bytes_before < $3 ORDER BY position"#,
            position,
            i64::from(limit),
            i64::try_from(PAGE_BYTES).unwrap_or(i64::MAX)
        )
        .fetch_all(&self.readers);
        in_time(async { Ok(all(rows.await.map_err(told)?)?) }).await
    }

    async fn feed_head(&self) -> Result<i64> {
        sqlx::query_scalar!("SELECT position FROM feed_counter").fetch_one(&self.readers).in_time().await
    }

    fn hints(&self) -> watch::Receiver<i64> {
        self.hints.clone()
    }

    fn nudge(&self, position: i64) {
        // The held position stays: one that was wrong and too high would silence all hints that follow.
        self.hint.send_if_modified(|held| position > *held);
    }
}
