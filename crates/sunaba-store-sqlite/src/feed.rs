//! The feed: everything that is published, in one order.

use std::sync::Arc;

use async_trait::async_trait;
use sunaba_store::{FeedEntry, FeedStore, Result};
use sunaba_store_sql::rows::FeedRow;
use tokio::sync::watch;

use crate::SqliteStore;
use crate::fault::told;
use crate::page::gather;
use crate::rows::all;

#[async_trait]
impl FeedStore for SqliteStore {
    async fn feed_after(&self, position: i64, limit: u32) -> Result<Vec<Arc<FeedEntry>>> {
        if let Some(page) = self.tail.after(position, limit) {
            return Ok(page);
        }
        let rows = sqlx::query_as!(
            FeedRow,
            r#"SELECT f.position AS "position!", f.project_id, f.event_type AS "event_type!",
                      f.entity_type AS "entity_type!", f.entity_id AS "entity_id!", f.sandbox_id, f.seq,
                      f.payload AS notice, f.created_at AS "created_at!", e.event_id AS "event_id?",
                      e.event_type AS "original_type?", e.source AS "source?", e.payload AS "payload?: Vec<u8>"
               FROM feed AS f LEFT JOIN events AS e ON e.sandbox_id = f.sandbox_id AND e.seq = f.seq
               WHERE f.position > ?1 ORDER BY f.position LIMIT ?2"#,
            position,
            limit
        )
        .fetch(&self.readers);
        let (rows, _) = gather(rows).await.map_err(told)?;
        let rows: Vec<FeedEntry> = all(rows)?;
        Ok(rows.into_iter().map(Arc::new).collect())
    }

    async fn feed_head(&self) -> Result<i64> {
        sqlx::query_scalar!("SELECT position FROM feed_counter").fetch_one(&self.readers).await.map_err(told)
    }

    fn hints(&self) -> watch::Receiver<i64> {
        self.hints.clone()
    }
}
