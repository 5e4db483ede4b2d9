//! The list of events, newest first, with its filters.

use sunaba_store::{EventPage, EventQuery, Result};
use sunaba_types::{StoredEvent, topic};

use super::Place;
use crate::PostgresStore;
use crate::page::InTime as _;
use crate::rows::list;

/// The part of a log a page is taken from.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) sandbox: String,
    /// The wanted types; none means every type there is.
    pub(super) types: Option<Vec<String>>,
    /// How many events of these types there are.
    pub(super) total: i64,
    /// Only later than this.
    pub(super) after: i64,
    /// Only earlier than this.
    pub(super) before: i64,
}

impl PostgresStore {
    pub(super) async fn read_page(&self, query: EventQuery) -> Result<EventPage> {
        let mut window = self.window(&query).await?;
        let limit = i64::from(query.limit);
        if let Some(text) = &query.contains {
            return self.search(&window, text, query.offset, query.limit).await;
        }
        let offset = i64::try_from(query.offset).unwrap_or(i64::MAX);
        let (events, more) = match &window.types {
            None => {
                window.before = window.before.saturating_sub(offset);
                let events = self.newest_of_all(&window, limit).await?;
                let more = events.last().is_some_and(|last| last.seq > window.after + 1);
                (events, more)
            }
            Some(types) => self.newest_of_types(&window, types, offset, limit).await?,
        };
        let next_before_seq = if more { events.last().map(|event| event.seq) } else { None };
        Ok(EventPage { events, total_count: window.total, next_before_seq })
    }

    async fn window(&self, query: &EventQuery) -> Result<Window> {
        let head = self.counters(&query.sandbox_id).await?.head;
        let filtered = !(query.event_types.is_empty() && query.exclude_types.is_empty());
        let (types, total) = if filtered { self.wanted(query).await? } else { (None, head.last_seq) };
        Ok(Window {
            sandbox: query.sandbox_id.to_string(),
            types,
            total,
            after: query.after_seq.unwrap_or(0).max(0),
            before: query.before_seq.unwrap_or(i64::MAX).clamp(0, head.last_seq + 1),
        })
    }

    /// The types that the filters leave, and how many events they have.
    async fn wanted(&self, query: &EventQuery) -> Result<(Option<Vec<String>>, i64)> {
        let key = query.sandbox_id.as_str();
        let counts = sqlx::query!(
            r#"SELECT event_type AS "event_type!", count AS "count!" FROM event_type_counts WHERE sandbox_id = $1"#,
            key
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        let covered = |patterns: &[String], name: &str| patterns.iter().any(|p| topic::covers(p, name));
        let all_types = counts.len();
        let wanted: Vec<_> = counts
            .into_iter()
            .filter(|row| query.event_types.is_empty() || covered(&query.event_types, &row.event_type))
            .filter(|row| !covered(&query.exclude_types, &row.event_type))
            .collect();
        let total = wanted.iter().map(|row| row.count).sum();
        let names =
            (wanted.len() < all_types).then(|| list(wanted.iter().map(|row| row.event_type.as_str())));
        Ok((names, total))
    }

    async fn newest_of_all(&self, window: &Window, limit: i64) -> Result<Vec<StoredEvent>> {
        let Window { sandbox, after, before, .. } = window;
        let places = sqlx::query_as!(
            Place,
            r#"SELECT seq, octet_length(payload)::bigint AS "bytes!" FROM events
               WHERE sandbox_id = $1 AND seq > $2 AND seq < $3 ORDER BY seq DESC LIMIT $4"#,
            sandbox,
            after,
            before,
            limit
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        Ok(self.events_at(sandbox, places).await?.0)
    }

    /// A page of some types, and whether there are more of them before it.
    async fn newest_of_types(
        &self,
        window: &Window,
        types: &[String],
        offset: i64,
        limit: i64,
    ) -> Result<(Vec<StoredEvent>, bool)> {
        let sandbox = window.sandbox.as_str();
        // Ranks count the wanted events before a place; a page is a range of ranks.
        let last = self.rank(sandbox, types, window.before).await?.saturating_sub(offset);
        let floor = self.rank(sandbox, types, window.after.saturating_add(1)).await?;
        let first = last.saturating_sub(limit).max(floor);
        if last <= first {
            return Ok((Vec::new(), false));
        }
        let to = match offset {
            0 => window.before,
            _ => self.place(sandbox, types, last, window.before).await? + 1,
        };
        // Each type has its own index entries in order: no more than a page of each is looked at.
        let places = sqlx::query_as!(
            Place,
            r#"SELECT e.seq AS "seq!", octet_length(e.payload)::bigint AS "bytes!"
               FROM (SELECT found.seq FROM unnest($2::text[]) AS wanted (event_type)
                     CROSS JOIN LATERAL (SELECT seq FROM events
                                         WHERE sandbox_id = $1 AND event_type = wanted.event_type
                                           AND seq + 0 < $3
                                         ORDER BY seq + 0 DESC LIMIT $4) AS found
                     ORDER BY found.seq DESC LIMIT $4) AS page
               JOIN events AS e ON e.sandbox_id = $1 AND e.seq = page.seq
               ORDER BY e.seq DESC"#,
            sandbox,
            types,
            to,
            last - first
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        let (events, cut) = self.events_at(sandbox, places).await?;
        Ok((events, cut || first > floor))
    }

    /// How many wanted events there are before a place.
    async fn rank(&self, sandbox: &str, types: &[String], before: i64) -> Result<i64> {
        sqlx::query_scalar!(
            r#"SELECT coalesce(sum((
                   SELECT e.type_seq FROM events AS e
                   WHERE e.sandbox_id = $1 AND e.event_type = wanted.event_type AND e.seq + 0 < $3
                   ORDER BY e.seq + 0 DESC LIMIT 1)), 0)::bigint AS "rank!"
               FROM unnest($2::text[]) AS wanted (event_type)"#,
            sandbox,
            types,
            before
        )
        .fetch_one(&self.readers)
        .in_time()
        .await
    }

    /// The place of the wanted event with this rank: the largest place with fewer wanted events up
    /// to it, found in halving steps, and one more.
    async fn place(&self, sandbox: &str, types: &[String], rank: i64, before: i64) -> Result<i64> {
        let first_step = 1_i64 << before.max(1).ilog2();
        sqlx::query_scalar!(
            r#"WITH RECURSIVE search (low, step) AS (
                   SELECT 0::bigint, $4::bigint
                   UNION ALL
                   SELECT low + CASE WHEN (
                              SELECT coalesce(sum((
                                  SELECT e.type_seq FROM events AS e
                                  WHERE e.sandbox_id = $1 AND e.event_type = wanted.event_type
                                    AND e.seq + 0 <= search.low + search.step
                                  ORDER BY e.seq + 0 DESC LIMIT 1)), 0)
                              FROM unnest($2::text[]) AS wanted (event_type)) < $3::bigint
                          THEN step ELSE 0 END,
                          step / 2
                   FROM search WHERE step > 0
               )
               SELECT low + 1 AS "place!" FROM search WHERE step = 0"#,
            sandbox,
            types,
            rank,
            first_step
        )
        .fetch_one(&self.readers)
        .in_time()
        .await
    }
}
