//! Writing what a transaction has collected.

use super::Unit;
use super::columns::{EventColumns, FeedColumns, LogColumns, TurnColumns, Turns, TypeColumns, Types};
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

    /// Events and what is counted of them: four tables that nearly every transaction writes, in one statement,
    /// because each way to the server and back costs as much as some rows. What has a row is updated and what has
    /// none inserted: to insert or else update costs as much as both.
    async fn flush_log(&mut self) -> Result<(), sqlx::Error> {
        let rows = std::mem::take(&mut self.draft.events);
        let events = EventColumns::of(&rows);
        let logs = LogColumns::take(&mut self.draft);
        let types = Types::take(&mut self.draft);
        let turns = Turns::take(&mut self.draft);
        // Whatever is counted has a log that moved.
        if rows.is_empty() && logs.sandbox_id.is_empty() {
            return Ok(());
        }
        self.flush_new(&types.new, &turns.unsure).await?;
        let (types, turns) = (types.held, turns.held);
        let [last_seq, heartbeats, story, noise, type_count, noisy, silence] = &logs.numbers;
        let [turn, _, turn_last_seq, _, ended, tools, errors, edits, messages] = &turns.numbers;
        sqlx::query!(
            "WITH written AS (
                 INSERT INTO events (sandbox_id, seq, event_id, event_type, type_seq, source, class, created_at,
                                     payload, payload_hash, hash, step)
                 SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[],
                                      $7::smallint[], $8::bigint[], $9::bytea[], $10::bytea[], $11::bytea[],
                                      $12::text[])
             ), counted AS (
                 UPDATE event_type_counts AS held SET count = new.count
                 FROM unnest($13::text[], $14::text[], $15::bigint[]) AS new (sandbox_id, event_type, count)
                 WHERE held.sandbox_id = new.sandbox_id AND held.event_type = new.event_type
             ), outlined AS (
                 UPDATE outline AS held
                 SET last_seq = new.last_seq, ended_at = new.ended_at, tools = held.tools + new.tools,
                     errors = held.errors + new.errors, edits = held.edits + new.edits,
                     messages = held.messages + new.messages
                 FROM unnest($16::text[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[],
                             $21::bigint[], $22::bigint[], $23::bigint[])
                      AS new (sandbox_id, turn, last_seq, ended_at, tools, errors, edits, messages)
                 WHERE held.sandbox_id = new.sandbox_id AND held.turn = new.turn
             )
             UPDATE sandbox_log
             SET last_seq = new.last_seq, last_hash = new.last_hash, heartbeat_count = new.heartbeat_count,
                 first_heartbeat = new.first_heartbeat, last_heartbeat = new.last_heartbeat,
                 story_count = new.story_count, noise_count = new.noise_count, type_count = new.type_count,
                 noisy_count = new.noisy_count, silence_seconds = new.silence_seconds,
                 alive_until = new.alive_until
             FROM unnest($24::text[], $25::bigint[], $26::bytea[], $27::bigint[], $28::bigint[], $29::bigint[],
                         $30::bigint[], $31::bigint[], $32::bigint[], $33::bigint[], $34::bigint[], $35::bigint[])
                  AS new (sandbox_id, last_seq, last_hash, heartbeat_count, first_heartbeat, last_heartbeat,
                          story_count, noise_count, type_count, noisy_count, silence_seconds, alive_until)
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
            &types.sandbox_id,
            &types.event_type,
            &types.count,
            &turns.sandbox_id,
            turn,
            turn_last_seq,
            ended,
            tools,
            errors,
            edits,
            messages,
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
            &logs.alive_until as &[Option<i64>]
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    /// Types of which a sandbox has the first event, and turns that may have begun.
    async fn flush_new(&mut self, types: &TypeColumns, turns: &TurnColumns) -> Result<(), sqlx::Error> {
        if types.count.is_empty() && turns.sandbox_id.is_empty() {
            return Ok(());
        }
        let [turn, first_seq, last_seq, started, ended, tools, errors, edits, messages] = &turns.numbers;
        sqlx::query!(
            "WITH counted AS (
                 INSERT INTO event_type_counts (sandbox_id, event_type, count)
                 SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])
             )
             INSERT INTO outline AS held (sandbox_id, turn, first_seq, last_seq, started_at, ended_at, tools,
                                          errors, edits, messages)
             SELECT * FROM unnest($4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                                  $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[])
             ON CONFLICT (sandbox_id, turn) DO UPDATE
             SET last_seq = excluded.last_seq, ended_at = excluded.ended_at,
                 tools = held.tools + excluded.tools, errors = held.errors + excluded.errors,
                 edits = held.edits + excluded.edits, messages = held.messages + excluded.messages",
            &types.sandbox_id,
            &types.event_type,
            &types.count,
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
            &columns.project_id as &[Option<&str>],
            &columns.event_type as &[&str],
            &columns.entity_type as &[&str],
            &columns.entity_id as &[&str],
            &columns.sandbox_id as &[Option<&str>],
            &columns.seq as &[Option<i64>],
            &columns.payload as &[Option<&str>],
            &columns.created_at,
            CHANNEL
        )
        .fetch_one(self.sql())
        .await?
        .position;
        self.draft.published(rows, position);
        Ok(())
    }
}
