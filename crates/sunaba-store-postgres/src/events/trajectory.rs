//! The story without heartbeats, page by page.

use sunaba_store::{Error, Noise, Result, TrajectoryDirection, TrajectoryPage, TrajectoryQuery};
use sunaba_types::{SandboxId, StoredEvent};

use super::Place;
use crate::PostgresStore;
use crate::page::InTime as _;

/// The classes of a trajectory: always the story, noise where it is wanted.
const STORY: i16 = 0;
const NOISE: i16 = 2;

/// The second class to merge in; the same one again would double the story.
const fn second_class(noise: Noise) -> i16 {
    match noise {
        Noise::Shown => NOISE,
        Noise::Hidden => -1,
    }
}

impl PostgresStore {
    pub(super) async fn read_trajectory(&self, query: TrajectoryQuery) -> Result<TrajectoryPage> {
        let counters = self.counters(&query.sandbox_id).await?;
        let cursor_seq = match &query.cursor {
            Some(cursor) => Some(self.seq_of(&query.sandbox_id, cursor).await?),
            None => None,
        };
        // One more than asked for tells whether there is more.
        let limit = i64::from(query.limit) + 1;
        let (mut events, cut) = match (query.direction, cursor_seq) {
            (TrajectoryDirection::Newer, Some(seq)) => self.newer(&query, seq, limit).await?,
            (_, seq) => self.older(&query, seq.unwrap_or(i64::MAX), limit).await?,
        };
        let newer = query.direction == TrajectoryDirection::Newer && cursor_seq.is_some();
        let over = events.len() as u64 > u64::from(query.limit);
        if over {
            events.pop();
        }
        let more = over || cut;
        if newer {
            events.reverse();
        }
        // The cursor itself lies on the side the page came from.
        let beyond_oldest = if newer { true } else { more };
        let beyond_newest = if newer { more } else { cursor_seq.is_some() };
        let oldest = events.last().map(|event| event.event_id.clone()).or_else(|| query.cursor.clone());
        let newest = events.first().map(|event| event.event_id.clone()).or_else(|| query.cursor.clone());
        let shown_noise = if query.noise == Noise::Shown { counters.noise_count } else { 0 };
        Ok(TrajectoryPage {
            has_more: more && (newer || query.direction == TrajectoryDirection::Older),
            next_cursor: if beyond_oldest { oldest } else { None },
            prev_cursor: if beyond_newest { newest } else { None },
            trajectory_events: counters.story_count + shown_noise,
            head: counters.head,
            events,
        })
    }

    async fn seq_of(&self, id: &SandboxId, event_id: &str) -> Result<i64> {
        let key = id.as_str();
        sqlx::query_scalar!("SELECT seq FROM events WHERE sandbox_id = $1 AND event_id = $2", key, event_id)
            .fetch_optional(&self.readers)
            .in_time()
            .await?
            .ok_or_else(|| Error::not_found("event", event_id))
    }

    /// Newest first, and whether the page ended early.
    async fn older(
        &self,
        query: &TrajectoryQuery,
        before: i64,
        limit: i64,
    ) -> Result<(Vec<StoredEvent>, bool)> {
        let (key, second) = (query.sandbox_id.as_str(), second_class(query.noise));
        let places = sqlx::query_as!(
            Place,
            r#"SELECT e.seq AS "seq!", octet_length(e.payload)::bigint AS "bytes!"
               FROM ((SELECT seq FROM events WHERE sandbox_id = $1 AND class = $2 AND seq + 0 < $4
                      ORDER BY seq + 0 DESC LIMIT $5)
                     UNION ALL
                     (SELECT seq FROM events WHERE sandbox_id = $1 AND class = $3 AND seq + 0 < $4
                      ORDER BY seq + 0 DESC LIMIT $5)
                     ORDER BY seq DESC LIMIT $5) AS page
               JOIN events AS e ON e.sandbox_id = $1 AND e.seq = page.seq
               ORDER BY e.seq DESC"#,
            key,
            STORY,
            second,
            before,
            limit
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        self.events_at(key, places).await
    }

    /// Oldest first, and whether the page ended early.
    async fn newer(
        &self,
        query: &TrajectoryQuery,
        after: i64,
        limit: i64,
    ) -> Result<(Vec<StoredEvent>, bool)> {
        let (key, second) = (query.sandbox_id.as_str(), second_class(query.noise));
        let places = sqlx::query_as!(
            Place,
            r#"SELECT e.seq AS "seq!", octet_length(e.payload)::bigint AS "bytes!"
               FROM ((SELECT seq FROM events WHERE sandbox_id = $1 AND class = $2 AND seq + 0 > $4
                      ORDER BY seq + 0 LIMIT $5)
                     UNION ALL
                     (SELECT seq FROM events WHERE sandbox_id = $1 AND class = $3 AND seq + 0 > $4
                      ORDER BY seq + 0 LIMIT $5)
                     ORDER BY seq LIMIT $5) AS page
               JOIN events AS e ON e.sandbox_id = $1 AND e.seq = page.seq
               ORDER BY e.seq"#,
            key,
            STORY,
            second,
            after,
            limit
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        self.events_at(key, places).await
    }
}
