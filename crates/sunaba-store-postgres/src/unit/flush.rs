//! Writing what a transaction has collected.

use std::sync::Arc;

use super::Unit;
use super::columns::{EventColumns, FeedColumns, LogColumns, TurnColumns, TypeColumns};
use crate::open::CHANNEL;

impl Unit {
    /// Writes everything collected but the feed.
    pub(super) async fn flush_collected(&mut self) -> Result<(), sqlx::Error> {
        self.flush_log().await?;
        self.flush_noisy().await?;
        self.flush_rows().await?;
        self.withdraw_questions().await?;
        self.expire_messages().await
    }

    /// Events and the ends of their logs: two tables that nearly every transaction writes, in one statement,
    /// because each way to the server and back costs as much as some rows.
    async fn flush_log(&mut self) -> Result<(), sqlx::Error> {
        let rows = std::mem::take(&mut self.draft.events);
        let events = EventColumns::of(&rows);
        let types = TypeColumns::take(&mut self.draft);
        let turns = TurnColumns::take(&mut self.draft);
        let logs = LogColumns::take(&mut self.draft);
        // Whatever is counted has a log that moved.
        if rows.is_empty() && logs.sandbox_id.is_empty() {
            return Ok(());
        }
        self.flush_new(&types, &turns).await?;
        let [last_seq, heartbeats, story, noise, type_count, noisy, silence] = &logs.numbers;
        sqlx::query!(
            "WITH written AS (
                 INSERT INTO events (sandbox_id, seq, event_id, event_type, type_seq, source, class, created_at,
                                     payload, payload_hash, hash, step)
                 SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[],
                                      $7::smallint[], $8::bigint[], $9::bytea[], $10::bytea[], $11::bytea[],
                                      $12::text[])
             )
             UPDATE sandbox_log
             SET last_seq = new.last_seq, last_hash = new.last_hash, heartbeat_count = new.heartbeat_count,
                 first_heartbeat = new.first_heartbeat, last_heartbeat = new.last_heartbeat,
                 story_count = new.story_count, noise_count = new.noise_count, type_count = new.type_count,
                 noisy_count = new.noisy_count, silence_seconds = new.silence_seconds,
                 alive_until = new.alive_until, open_turn = new.open_turn::bigint[]
             FROM unnest($13::text[], $14::bigint[], $15::bytea[], $16::bigint[], $17::bigint[], $18::bigint[],
                         $19::bigint[], $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[],
                         $25::text[])
                  AS new (sandbox_id, last_seq, last_hash, heartbeat_count, first_heartbeat, last_heartbeat,
                          story_count, noise_count, type_count, noisy_count, silence_seconds, alive_until,
                          open_turn)
             WHERE sandbox_log.sandbox_id = new.sandbox_id",
            &events.sandbox_id as &[&str],
            &events.seq,
            &events.event_id as &[&str],
            &events.event_type as &[&str],
            &events.type_seq,
            &events.source as &[&str],
            &events.class,
            &events.created_at,
            &events.payload as &[&[u8]],
            &events.payload_hash as &[&[u8]],
            &events.hash as &[&[u8]],
            &events.step as &[Option<&str>],
            &logs.sandbox_id,
            last_seq,
            &logs.last_hash,
            heartbeats,
            &logs.first_heartbeat as &[Option<i64>],
            &logs.last_heartbeat as &[Option<i64>],
            story,
            noise,
            type_count,
            noisy,
            silence,
            &logs.alive_until as &[Option<i64>],
            &logs.open_turn as &[Option<String>]
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    /// Types of which a sandbox has the first event, and turns that are over.
    async fn flush_new(&mut self, types: &TypeColumns, turns: &TurnColumns) -> Result<(), sqlx::Error> {
        if types.event_type.is_empty() && turns.sandbox_id.is_empty() {
            return Ok(());
        }
        let [turn, first_seq, last_seq, started, ended, tools, errors, edits, messages] = &turns.numbers;
        sqlx::query!(
            "WITH named AS (
                 INSERT INTO event_types (sandbox_id, event_type) SELECT * FROM unnest($1::text[], $2::text[])
             )
             INSERT INTO closed_turns AS held (sandbox_id, turn, first_seq, last_seq, started_at, ended_at, tools,
                                               errors, edits, messages)
             SELECT * FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                                  $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[])
             ON CONFLICT (sandbox_id, turn) DO UPDATE
             SET last_seq = excluded.last_seq, ended_at = excluded.ended_at,
                 tools = held.tools + excluded.tools, errors = held.errors + excluded.errors,
                 edits = held.edits + excluded.edits, messages = held.messages + excluded.messages",
            &types.sandbox_id,
            &types.event_type,
            &turns.sandbox_id,
            turn,
            first_seq,
            last_seq,
            started,
            ended,
            tools,
            errors,
            edits,
            messages
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
        let columns = FeedColumns::of(&rows);
        let teller = Arc::clone(&self.teller);
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
               SELECT position, pg_notify($10, position || ' ' || $11)::text AS told FROM counter"#,
            count,
            &columns.project_id as &[Option<&str>],
            &columns.event_type as &[&str],
            &columns.entity_type as &[&str],
            &columns.entity_id as &[&str],
            &columns.sandbox_id as &[Option<&str>],
            &columns.seq as &[Option<i64>],
            &columns.payload as &[Option<&str>],
            &columns.created_at,
            CHANNEL,
            &*teller
        )
        .fetch_one(self.sql())
        .await?
        .position;
        self.draft.published(rows, position);
        Ok(())
    }
}
