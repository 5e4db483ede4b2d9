//! Writing what a transaction has collected.

use std::sync::Arc;

use sqlx::PgConnection;

use super::Unit;
use super::written::{WrittenEntry, WrittenEvent, WrittenLog, WrittenName, WrittenTurn};
use crate::open::CHANNEL;
use crate::others::HELLO;

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
        let draft = &mut self.draft;
        let rows = std::mem::take(&mut draft.events);
        let (types, turns) = (WrittenName::take_types(draft), WrittenTurn::take(draft));
        let (events, logs) = (WrittenEvent::all(&rows), WrittenLog::take(draft));
        // Whatever is counted has a log that moved.
        if events.is_empty() && logs.is_empty() {
            return Ok(());
        }
        flush_new(&mut self.line, &types, &turns).await?;
        sqlx::query!(
            "WITH written AS (
                 INSERT INTO events (sandbox_id, seq, event_id, event_type, type_seq, source, class, created_at,
                                     payload, payload_hash, hash, step)
                 SELECT new.sandbox_id, new.seq, new.event_id, new.event_type, new.type_seq, new.source, new.class,
                        new.created_at, new.payload, new.payload_hash, new.hash, new.step
                 FROM unnest($1::written_event[]) AS new
             )
             UPDATE sandbox_log
             SET last_seq = new.last_seq, last_hash = new.last_hash, heartbeat_count = new.heartbeat_count,
                 first_heartbeat = new.first_heartbeat, last_heartbeat = new.last_heartbeat,
                 story_count = new.story_count, noise_count = new.noise_count, type_count = new.type_count,
                 noisy_count = new.noisy_count, silence_seconds = new.silence_seconds,
                 alive_until = new.alive_until, open_turn = new.open_turn
             FROM unnest($2::written_log[]) AS new
             WHERE sandbox_log.sandbox_id = new.sandbox_id",
            &events as &[WrittenEvent<'_>],
            &logs as &[WrittenLog<'_>]
        )
        .execute(&mut *self.line)
        .await?;
        Ok(())
    }

    /// Tells other servers that this one is there.
    pub(crate) async fn say_hello(&mut self) -> Result<(), sqlx::Error> {
        let said = format!("{HELLO} {}", self.teller);
        sqlx::query!("SELECT pg_notify($1, $2)::text AS told", CHANNEL, said).fetch_one(self.sql()).await?;
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
        let entries = WrittenEntry::all(&rows);
        let teller = Arc::clone(&self.teller);
        let position = sqlx::query!(
            r#"WITH counter AS (
                   UPDATE feed_counter SET position = position + $1 WHERE id = 1 RETURNING position
               ), published AS (
                   INSERT INTO feed (position, project_id, event_type, entity_type, entity_id, sandbox_id, seq,
                                     payload, created_at)
                   SELECT counter.position - $1 + new.place, new.project_id, new.event_type, new.entity_type,
                          new.entity_id, new.sandbox_id, new.seq, new.payload, new.created_at
                   FROM counter, unnest($2::written_entry[])
                        WITH ORDINALITY AS new (project_id, event_type, entity_type, entity_id, sandbox_id, seq,
                                                payload, created_at, place)
               )
               SELECT position, pg_notify($3, position || ' ' || $4)::text AS told FROM counter"#,
            count,
            &entries as &[WrittenEntry<'_>],
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

/// Types of which a sandbox has the first event, and turns that are over.
async fn flush_new(
    connection: &mut PgConnection,
    types: &[WrittenName],
    turns: &[WrittenTurn],
) -> Result<(), sqlx::Error> {
    if types.is_empty() && turns.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "WITH named AS (
             INSERT INTO event_types (sandbox_id, event_type)
             SELECT new.sandbox_id, new.name FROM unnest($1::written_name[]) AS new
         )
         INSERT INTO closed_turns AS held (sandbox_id, turn, first_seq, last_seq, started_at, ended_at, tools,
                                           errors, edits, messages)
         SELECT new.sandbox_id, new.turn, new.first_seq, new.last_seq, new.started_at, new.ended_at, new.tools,
                new.errors, new.edits, new.messages
         FROM unnest($2::written_turn[]) AS new
         ON CONFLICT (sandbox_id, turn) DO UPDATE
         SET last_seq = excluded.last_seq, ended_at = excluded.ended_at,
             tools = held.tools + excluded.tools, errors = held.errors + excluded.errors,
             edits = held.edits + excluded.edits, messages = held.messages + excluded.messages",
        types as &[WrittenName],
        turns as &[WrittenTurn]
    )
    .execute(connection)
    .await?;
    Ok(())
}
