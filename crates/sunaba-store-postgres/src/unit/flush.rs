//! Writing what a transaction has collected: one statement a table.

use sunaba_store_sql::draft::{NewEventRow, NewFeedRow};
use sunaba_types::Timestamp;

use super::Unit;
use crate::open::CHANNEL;

impl Unit {
    /// Writes everything collected but the feed.
    pub(super) async fn flush_collected(&mut self) -> Result<(), sqlx::Error> {
        self.flush_events().await?;
        self.flush_logs().await?;
        self.flush_types().await?;
        self.flush_turns().await?;
        self.flush_noisy().await?;
        self.flush_rows().await?;
        self.expire_messages().await
    }

    async fn flush_events(&mut self) -> Result<(), sqlx::Error> {
        let rows = std::mem::take(&mut self.draft.events);
        if rows.is_empty() {
            return Ok(());
        }
        let columns = EventColumns::of(rows);
        sqlx::query!(
            "INSERT INTO events (sandbox_id, seq, event_id, event_type, type_seq, source, class, created_at, payload,
                                 payload_hash, hash, step)
             SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[],
                                  $7::smallint[], $8::bigint[], $9::bytea[], $10::bytea[], $11::bytea[], $12::text[])",
            &columns.sandbox_id,
            &columns.seq,
            &columns.event_id,
            &columns.event_type,
            &columns.type_seq,
            &columns.source as &[&str],
            &columns.class,
            &columns.created_at,
            &columns.payload,
            &columns.payload_hash,
            &columns.hash,
            &columns.step as &[Option<String>]
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    async fn flush_logs(&mut self) -> Result<(), sqlx::Error> {
        let mut columns = LogColumns::default();
        for changed in self.draft.take_changed_logs() {
            let log = changed.log;
            columns.sandbox_id.push(changed.sandbox_id.to_string());
            columns.last_hash.push(log.last_hash.to_vec());
            columns.first_heartbeat.push(log.first_heartbeat.map(Timestamp::as_microsecond));
            columns.last_heartbeat.push(log.last_heartbeat.map(Timestamp::as_microsecond));
            columns.alive_until.push(changed.alive_until.map(Timestamp::as_microsecond));
            let numbers = [
                log.last_seq,
                log.heartbeat_count,
                log.story_count,
                log.noise_count,
                log.type_count,
                log.noisy_count,
                log.silence_seconds,
            ];
            for (column, number) in columns.numbers.iter_mut().zip(numbers) {
                column.push(number);
            }
        }
        if columns.sandbox_id.is_empty() {
            return Ok(());
        }
        let [last_seq, heartbeats, story, noise, types, noisy, silence] = &columns.numbers;
        sqlx::query!(
            "UPDATE sandbox_log
             SET last_seq = new.last_seq, last_hash = new.last_hash, heartbeat_count = new.heartbeat_count,
                 first_heartbeat = new.first_heartbeat, last_heartbeat = new.last_heartbeat,
                 story_count = new.story_count, noise_count = new.noise_count, type_count = new.type_count,
                 noisy_count = new.noisy_count, silence_seconds = new.silence_seconds,
                 alive_until = new.alive_until
             FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[],
                         $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[])
                  AS new (sandbox_id, last_seq, last_hash, heartbeat_count, first_heartbeat, last_heartbeat,
                          story_count, noise_count, type_count, noisy_count, silence_seconds, alive_until)
             WHERE sandbox_log.sandbox_id = new.sandbox_id",
            &columns.sandbox_id,
            last_seq,
            &columns.last_hash,
            heartbeats,
            &columns.first_heartbeat as &[Option<i64>],
            &columns.last_heartbeat as &[Option<i64>],
            story,
            noise,
            types,
            noisy,
            silence,
            &columns.alive_until as &[Option<i64>]
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    async fn flush_types(&mut self) -> Result<(), sqlx::Error> {
        let (mut sandboxes, mut names, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for (id, name, count) in self.draft.take_changed_types() {
            sandboxes.push(id.to_string());
            names.push(name);
            counts.push(count);
        }
        if names.is_empty() {
            return Ok(());
        }
        sqlx::query!(
            "INSERT INTO event_type_counts (sandbox_id, event_type, count)
             SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
             ON CONFLICT (sandbox_id, event_type) DO UPDATE SET count = excluded.count",
            &sandboxes,
            &names,
            &counts
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    /// Publishes, as the last statement of the transaction: the counter's lock is held until the commit, and
    /// nothing else is waited for meanwhile.
    pub(crate) async fn flush_feed(&mut self) -> Result<(), sqlx::Error> {
        let rows = std::mem::take(&mut self.draft.feed);
        if rows.is_empty() && !self.probed {
            return Ok(());
        }
        let count = i64::try_from(rows.len()).expect("a batch is small");
        let columns = FeedColumns::of(rows);
        let position = sqlx::query!(
            r#"WITH counter AS (
                   UPDATE feed_counter SET position = position + $1 WHERE id = 1 RETURNING position
               ), published AS (
                   INSERT INTO feed (position, project_id, event_type, entity_type, entity_id, sandbox_id, seq,
                                     payload, created_at)
                   SELECT counter.position - $1 + new.place, new.project_id, new.event_type, new.entity_type,
                          new.entity_id, new.sandbox_id, new.seq, new.payload, new.created_at
                   FROM counter, unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[],
                                        $8::text[], $9::bigint[])
                        WITH ORDINALITY AS new (project_id, event_type, entity_type, entity_id, sandbox_id, seq,
                                                payload, created_at, place)
               )
               SELECT position, pg_notify($10, position::text)::text AS told FROM counter"#,
            count,
            &columns.project_id as &[Option<String>],
            &columns.event_type,
            &columns.entity_type as &[&str],
            &columns.entity_id,
            &columns.sandbox_id as &[Option<String>],
            &columns.seq as &[Option<i64>],
            &columns.payload as &[Option<String>],
            &columns.created_at,
            CHANNEL
        )
        .fetch_one(self.sql())
        .await?
        .position;
        self.draft.position = Some(position);
        Ok(())
    }
}

/// Logs by column.
#[derive(Debug, Default)]
struct LogColumns {
    sandbox_id: Vec<String>,
    last_hash: Vec<Vec<u8>>,
    first_heartbeat: Vec<Option<i64>>,
    last_heartbeat: Vec<Option<i64>>,
    alive_until: Vec<Option<i64>>,
    numbers: [Vec<i64>; 7],
}

/// Events by column.
#[derive(Debug, Default)]
struct EventColumns {
    sandbox_id: Vec<String>,
    seq: Vec<i64>,
    event_id: Vec<String>,
    event_type: Vec<String>,
    type_seq: Vec<i64>,
    source: Vec<&'static str>,
    class: Vec<i16>,
    created_at: Vec<i64>,
    payload: Vec<Vec<u8>>,
    payload_hash: Vec<Vec<u8>>,
    hash: Vec<Vec<u8>>,
    step: Vec<Option<String>>,
}

impl EventColumns {
    fn of(rows: Vec<NewEventRow>) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.sandbox_id.push(row.sandbox_id);
            columns.seq.push(row.seq);
            columns.event_id.push(row.event_id);
            columns.event_type.push(row.event_type);
            columns.type_seq.push(row.type_seq);
            columns.source.push(row.source);
            columns.class.push(row.class);
            columns.created_at.push(row.created_at);
            columns.payload.push(row.payload.into_bytes());
            columns.payload_hash.push(row.payload_hash.to_vec());
            columns.hash.push(row.hash.to_vec());
            columns.step.push(row.step);
        }
        columns
    }
}

/// Feed entries by column.
#[derive(Debug, Default)]
struct FeedColumns {
    project_id: Vec<Option<String>>,
    event_type: Vec<String>,
    entity_type: Vec<&'static str>,
    entity_id: Vec<String>,
    sandbox_id: Vec<Option<String>>,
    seq: Vec<Option<i64>>,
    payload: Vec<Option<String>>,
    created_at: Vec<i64>,
}

impl FeedColumns {
    fn of(rows: Vec<NewFeedRow>) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.project_id.push(row.project_id);
            columns.event_type.push(row.event_type);
            columns.entity_type.push(row.entity_type);
            columns.entity_id.push(row.entity_id);
            columns.sandbox_id.push(row.sandbox_id);
            columns.seq.push(row.seq);
            columns.payload.push(row.payload);
            columns.created_at.push(row.created_at);
        }
        columns
    }
}
