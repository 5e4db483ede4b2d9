//! Looking for a piece of text in payloads: a walk with an end.
//!
//! The log is walked backwards in pieces until the page is full, the log is
//! through, or the time is up; then the caller is told where to go on.

use std::time::{Duration, Instant};

use sunaba_store::{EventPage, PAGE_BYTES, Result};

use super::Place;
use super::list::Window;
use crate::PostgresStore;
use crate::page::InTime as _;

/// When a walk stops, with room for the piece under way.
const TIME_LIMIT: Duration = Duration::from_millis(1700);
/// A piece is made larger or smaller to take about this long.
const PIECE_TIME: Duration = Duration::from_millis(50);
const PIECE_MIN: i64 = 16;
const PIECE_FIRST: i64 = 128;
const PIECE_MAX: i64 = 50_000;

impl PostgresStore {
    pub(super) async fn search(
        &self,
        window: &Window,
        text: &str,
        mut skip: u64,
        limit: u32,
    ) -> Result<EventPage> {
        let started = Instant::now();
        let mut events = Vec::new();
        let mut high = window.before;
        let mut piece = PIECE_FIRST;
        let want = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut bytes = 0;
        while high > window.after + 1
            && events.len() < want
            && bytes < PAGE_BYTES
            && started.elapsed() < TIME_LIMIT
        {
            let low = (high - piece).max(window.after + 1);
            let piece_started = Instant::now();
            let left = i64::try_from(want - events.len()).unwrap_or(i64::MAX).saturating_add_unsigned(skip);
            let (found, cut) = self.search_piece(window, text, low, high, left).await?;
            let full = cut || i64::try_from(found.len()).unwrap_or(i64::MAX) >= left;
            high = if full { found.last().map_or(low, |event| event.seq) } else { low };
            for event in found {
                if skip > 0 {
                    skip -= 1;
                } else {
                    bytes += event.payload.as_str().len();
                    events.push(event);
                }
            }
            piece = next_piece(piece, piece_started.elapsed());
        }
        let next_before_seq = (high > window.after + 1).then_some(high);
        Ok(EventPage { events, total_count: window.total, next_before_seq })
    }

    /// What a piece of the log holds of it, and whether there is more in it.
    async fn search_piece(
        &self,
        window: &Window,
        text: &str,
        low: i64,
        high: i64,
        limit: i64,
    ) -> Result<(Vec<sunaba_types::StoredEvent>, bool)> {
        let Window { sandbox, types, .. } = window;
        let places = sqlx::query_as!(
            Place,
            r#"SELECT seq, octet_length(payload)::bigint AS "bytes!" FROM events
               WHERE sandbox_id = $1 AND seq >= $2 AND seq < $3
                 AND ($4::text[] IS NULL OR event_type = ANY($4))
                 AND position($5::bytea IN payload) > 0
               ORDER BY seq DESC LIMIT $6"#,
            sandbox,
            low,
            high,
            types.as_deref(),
            text.as_bytes(),
            limit
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        self.events_at(sandbox, places).await
    }
}

fn next_piece(piece: i64, took: Duration) -> i64 {
    let next = if took < PIECE_TIME / 2 {
        piece * 2
    } else if took > PIECE_TIME * 2 {
        piece / 4
    } else {
        piece
    };
    next.clamp(PIECE_MIN, PIECE_MAX)
}
