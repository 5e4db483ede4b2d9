//! The feed: everything that is published, in one order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use sunaba_store::{FeedEntry, FeedStore, PAGE_BYTES, Result};
use sunaba_store_sql::rows::FeedRow;
use tokio::sync::watch;

use crate::PostgresStore;
use crate::fault::told;
use crate::page::{InTime as _, in_time};
use crate::rows::all;

#[async_trait]
impl FeedStore for PostgresStore {
    async fn feed_after(&self, position: i64, limit: u32) -> Result<Vec<Arc<FeedEntry>>> {
        let mut page = self.tail.after(position, limit).unwrap_or_default();
        let reached = page.last().map_or(position, |entry| entry.position);
        let left = limit.saturating_sub(u32::try_from(page.len()).unwrap_or(limit));
        // Others' entries are read. Who finds nothing of his own always looks: hints are not the truth.
        if page.is_empty() || (left > 0 && reached < self.told_position()) {
            page.append(&mut self.stored_after(reached, left).await?);
        }
        Ok(page)
    }

    async fn feed_head(&self) -> Result<i64> {
        let head = sqlx::query_scalar!("SELECT position FROM feed_counter")
            .fetch_one(&self.readers)
            .in_time()
            .await?;
        self.tail.forget_after(head);
        Ok(head)
    }

    fn hints(&self) -> watch::Receiver<i64> {
        self.hints.clone()
    }

    fn nudge(&self, position: i64) {
        self.nudged.fetch_max(position, Ordering::Relaxed);
        // The held position stays: one that was wrong and too high would silence all hints that follow.
        self.hint.send_if_modified(|held| position > *held);
    }
}

impl PostgresStore {
    /// The furthest position that anybody told of.
    fn told_position(&self) -> i64 {
        self.nudged.load(Ordering::Relaxed).max(*self.hints.borrow())
    }

    async fn stored_after(&self, position: i64, limit: u32) -> Result<Vec<Arc<FeedEntry>>> {
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
        );
        in_time(async {
            let mut line = self.feed_lines.take().await.map_err(told)?;
            let rows = rows.fetch_all(&mut *line).await.map_err(told)?;
            line.rest();
            let entries: Vec<FeedEntry> = all(rows)?;
            Ok(entries.into_iter().map(Arc::new).collect())
        })
        .await
    }
}
