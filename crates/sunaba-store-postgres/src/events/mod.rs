//! The event log as it is read: pages, the trajectory, the outline, the head.
//!
//! No page walks to its place. Without a filter a place is arithmetic, because
//! `seq` has no gaps; with one it is found by bisection over `type_seq`.

mod list;
mod search;
mod steps;
mod trajectory;

use async_trait::async_trait;
use sunaba_store::{
    Append, AppendOutcome, Error, EventPage, EventQuery, EventStore, LogHead, OutlineTurn, Result, StepAt,
    TrajectoryPage, TrajectoryQuery,
};
use sunaba_types::{SandboxId, SandboxState, StoredEvent};

use crate::PostgresStore;
use crate::fault::told;
use crate::page::{InTime as _, fitting, in_time};
use crate::rows::{all, event_query, hash, maybe_time, readable, time};

/// A log's head and its counters.
#[derive(Debug)]
struct Counters {
    head: LogHead,
    story_count: i64,
    noise_count: i64,
}

/// Where an event is and how large it is.
#[derive(Debug)]
struct Place {
    seq: i64,
    bytes: i64,
}

impl PostgresStore {
    /// The events at these places, in this order, as many as a page holds; and whether that is fewer.
    ///
    /// Sizes are known before anything is read: what the server has begun to send is sent, and a thousand
    /// events may have a gigabyte.
    async fn events_at(&self, key: &str, mut places: Vec<Place>) -> Result<(Vec<StoredEvent>, bool)> {
        let wanted = places.len();
        places.truncate(fitting(places.iter().map(|place| place.bytes)));
        let seqs: Vec<i64> = places.iter().map(|place| place.seq).collect();
        let rows = event_query!("WHERE e.sandbox_id = $1 AND e.seq = ANY($2) ORDER BY e.seq", key, &seqs)
            .fetch_all(&self.readers)
            .in_time()
            .await?;
        let mut events: Vec<StoredEvent> = all(rows)?;
        if seqs.first() > seqs.last() {
            events.reverse();
        }
        Ok((events, seqs.len() < wanted))
    }

    async fn counters(&self, id: &SandboxId) -> Result<Counters> {
        let key = id.as_str();
        let row = sqlx::query!(
            "SELECT last_seq, last_hash, heartbeat_count, first_heartbeat, last_heartbeat, story_count,
                    noise_count
             FROM sandbox_log WHERE sandbox_id = $1",
            key
        )
        .fetch_optional(&self.readers)
        .in_time()
        .await?
        .ok_or_else(|| Error::not_found("sandbox", id))?;
        let head = LogHead {
            last_seq: row.last_seq,
            last_hash: hash(&row.last_hash, "sandbox_log", "last_hash", key)?,
            heartbeat_count: row.heartbeat_count,
            first_heartbeat: maybe_time(row.first_heartbeat, "sandbox_log", "first_heartbeat", key)?,
            last_heartbeat: maybe_time(row.last_heartbeat, "sandbox_log", "last_heartbeat", key)?,
        };
        Ok(Counters { head, story_count: row.story_count, noise_count: row.noise_count })
    }
}

#[async_trait]
impl EventStore for PostgresStore {
    async fn append(&self, append: Append) -> Result<Vec<AppendOutcome>> {
        if append.events.is_empty() {
            return Ok(Vec::new());
        }
        self.writer.append(append).await
    }

    async fn list_events(&self, query: EventQuery) -> Result<EventPage> {
        if query.contains.is_some() {
            // A search ends by itself, with what it has found.
            return self.read_page(query).await;
        }
        in_time(self.read_page(query)).await
    }

    async fn trajectory(&self, query: TrajectoryQuery) -> Result<TrajectoryPage> {
        in_time(self.read_trajectory(query)).await
    }

    async fn outline(
        &self,
        sandbox_id: &SandboxId,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OutlineTurn>> {
        let (key, after) = (sandbox_id.as_str(), after.unwrap_or(i64::MIN));
        let rows = sqlx::query!(
            r#"SELECT turn AS "turn!", first_seq AS "first_seq!", last_seq AS "last_seq!", started_at AS "started_at!",
                      ended_at AS "ended_at!", tools AS "tools!", errors AS "errors!", edits AS "edits!",
                      messages AS "messages!"
               FROM outline WHERE sandbox_id = $1 AND turn > $2 ORDER BY turn LIMIT $3"#,
            key,
            after,
            i64::from(limit)
        )
        .fetch_all(&self.readers);
        let rows = in_time(async { rows.await.map_err(told) }).await?;
        rows.into_iter()
            .map(|row| {
                Ok(OutlineTurn {
                    turn: row.turn,
                    first_seq: row.first_seq,
                    last_seq: row.last_seq,
                    started_at: time(row.started_at, "outline", "started_at", key)?,
                    ended_at: time(row.ended_at, "outline", "ended_at", key)?,
                    tools: row.tools,
                    errors: row.errors,
                    edits: row.edits,
                    messages: row.messages,
                })
            })
            .collect()
    }

    async fn events_after(
        &self,
        sandbox_id: &SandboxId,
        after_seq: i64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>> {
        let key = sandbox_id.as_str();
        in_time(async {
            let places = sqlx::query_as!(
                Place,
                r#"SELECT seq, octet_length(payload)::bigint AS "bytes!" FROM events
                   WHERE sandbox_id = $1 AND seq > $2 ORDER BY seq LIMIT $3"#,
                key,
                after_seq,
                i64::from(limit)
            )
            .fetch_all(&self.readers)
            .in_time()
            .await?;
            Ok(self.events_at(key, places).await?.0)
        })
        .await
    }

    async fn find_seq(&self, sandbox_id: &SandboxId, event_id: &str) -> Result<Option<i64>> {
        let key = sandbox_id.as_str();
        let seq = sqlx::query_scalar!(
            "SELECT seq FROM events WHERE sandbox_id = $1 AND event_id = $2",
            key,
            event_id
        )
        .fetch_optional(&self.readers);
        in_time(async { seq.await.map_err(told) }).await
    }

    async fn step_before(&self, sandbox_id: &SandboxId, at_seq: i64) -> Result<Option<StepAt>> {
        self.read_step_before(sandbox_id.as_str(), at_seq).await
    }

    async fn step_after(&self, sandbox_id: &SandboxId, seq: i64) -> Result<Option<StepAt>> {
        self.read_step_after(sandbox_id.as_str(), seq).await
    }

    async fn log_head(&self, sandbox_id: &SandboxId) -> Result<LogHead> {
        Ok(self.counters(sandbox_id).await?.head)
    }

    async fn sandbox_state(&self, sandbox_id: &SandboxId) -> Result<SandboxState> {
        let key = sandbox_id.as_str();
        let state = sqlx::query_scalar!("SELECT state FROM sandboxes WHERE id = $1", key)
            .fetch_optional(&self.readers)
            .in_time()
            .await?
            .ok_or_else(|| Error::not_found("sandbox", sandbox_id))?;
        Ok(readable(SandboxState::parse(&state), "sandboxes", "state", key)?)
    }
}
