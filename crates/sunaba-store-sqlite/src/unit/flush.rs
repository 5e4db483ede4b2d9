//! Writing what a transaction has collected: one statement a table.
//!
//! Small rows go in as one JSON text, because every statement costs a hop to the
//! connection's thread; events and the feed have statements of many rows.

use sunaba_store_sql::draft::ChangedLog;
use sunaba_types::chain::hex;
use sunaba_types::{NodeId, Sandbox, SandboxId, Task, Timestamp};

use super::ingest::json;
use super::{Unit, bulk};

impl Unit {
    /// Writes everything collected. The feed's counter comes last.
    pub(super) async fn flush_collected(&mut self) -> Result<(), sqlx::Error> {
        self.flush_events().await?;
        self.flush_logs().await?;
        self.flush_types().await?;
        self.flush_turns().await?;
        self.flush_noisy().await?;
        self.flush_rows().await?;
        self.withdraw_questions().await?;
        self.expire_messages().await?;
        self.flush_feed().await
    }

    async fn flush_events(&mut self) -> Result<(), sqlx::Error> {
        let rows = std::mem::take(&mut self.draft.events);
        bulk::insert_events(self.sql(), &rows).await
    }

    async fn flush_logs(&mut self) -> Result<(), sqlx::Error> {
        let changed = self.draft.take_changed_logs();
        if changed.is_empty() {
            return Ok(());
        }
        let logs = json(&changed.into_iter().map(log_arguments).collect::<Vec<_>>());
        sqlx::query!(
            "UPDATE sandbox_log
             SET last_seq = new.value ->> 1, last_hash = unhex(new.value ->> 2),
                 heartbeat_count = new.value ->> 3, first_heartbeat = new.value ->> 4,
                 last_heartbeat = new.value ->> 5, story_count = new.value ->> 6,
                 noise_count = new.value ->> 7, silence_seconds = new.value ->> 8,
                 alive_until = new.value ->> 9
             FROM json_each(?1) AS new WHERE sandbox_log.sandbox_id = new.value ->> 0",
            logs
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    async fn flush_types(&mut self) -> Result<(), sqlx::Error> {
        let counts = self.draft.take_changed_types();
        if counts.is_empty() {
            return Ok(());
        }
        let counts = json(&counts);
        sqlx::query!(
            "INSERT INTO event_type_counts (sandbox_id, event_type, count)
             SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?1) WHERE true
             ON CONFLICT (sandbox_id, event_type) DO UPDATE SET count = excluded.count",
            counts
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    async fn flush_turns(&mut self) -> Result<(), sqlx::Error> {
        let turns = std::mem::take(&mut self.draft.turns);
        if turns.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = turns
            .iter()
            .map(|((id, number), turn)| {
                let (started, ended) = (turn.started_at.as_microsecond(), turn.ended_at.as_microsecond());
                let counts = (turn.tools, turn.errors, turn.edits, turn.messages);
                (id.as_str(), number, turn.first_seq, turn.last_seq, started, ended, counts)
            })
            .collect();
        let rows = json(&rows);
        sqlx::query!(
            "INSERT INTO outline (sandbox_id, turn, first_seq, last_seq, started_at, ended_at, tools, errors,
                                  edits, messages)
             SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
                    value ->> '$[6][0]', value ->> '$[6][1]', value ->> '$[6][2]', value ->> '$[6][3]'
             FROM json_each(?1) WHERE true
             ON CONFLICT (sandbox_id, turn) DO UPDATE
             SET last_seq = excluded.last_seq, ended_at = excluded.ended_at, tools = tools + excluded.tools,
                 errors = errors + excluded.errors, edits = edits + excluded.edits,
                 messages = messages + excluded.messages",
            rows
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    async fn flush_noisy(&mut self) -> Result<(), sqlx::Error> {
        let opened = std::mem::take(&mut self.draft.noisy_opened);
        if !opened.is_empty() {
            let rows = json(&opened);
            sqlx::query!(
                "INSERT INTO noisy_calls (sandbox_id, tool_use_id)
                 SELECT value ->> 0, value ->> 1 FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING",
                rows
            )
            .execute(self.sql())
            .await?;
        }
        let closed = std::mem::take(&mut self.draft.noisy_closed);
        if !closed.is_empty() {
            let rows = json(&closed);
            sqlx::query!(
                "DELETE FROM noisy_calls WHERE (sandbox_id, tool_use_id) IN
                 (SELECT value ->> 0, value ->> 1 FROM json_each(?1))",
                rows
            )
            .execute(self.sql())
            .await?;
        }
        Ok(())
    }

    async fn flush_rows(&mut self) -> Result<(), sqlx::Error> {
        for row in self.draft.take_changed_sandboxes() {
            self.update_sandbox(&row).await?;
        }
        for row in self.draft.take_changed_tasks() {
            self.update_task(&row).await?;
        }
        Ok(())
    }

    async fn update_sandbox(&mut self, row: &Sandbox) -> Result<(), sqlx::Error> {
        let (id, state, entered) =
            (row.id.as_str(), row.state.as_str(), row.state_entered_at.as_microsecond());
        let ended = row.ended_at.map(Timestamp::as_microsecond);
        let terms = json(&row.terms);
        let exit = row.exit.as_ref().map(json);
        let node_id = row.node_id.as_ref().map(NodeId::as_str);
        sqlx::query!(
            "UPDATE sandboxes SET provider_ref = ?2, state = ?3, state_entered_at = ?4, reason = ?5,
                                  branch_name = ?6, base_commit = ?7, head_commit = ?8, isolation = ?9,
                                  ended_at = ?10, terms = ?11, exit = ?12, node_id = ?13
             WHERE id = ?1",
            id,
            row.provider_ref,
            state,
            entered,
            row.reason,
            row.branch_name,
            row.base_commit,
            row.head_commit,
            row.isolation,
            ended,
            terms,
            exit,
            node_id
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    async fn update_task(&mut self, row: &Task) -> Result<(), sqlx::Error> {
        let (id, status) = (row.id.as_str(), row.status.as_str());
        let sandbox_id = row.sandbox_id.as_ref().map(SandboxId::as_str);
        let outcome = row.outcome.map(sunaba_types::Outcome::as_str);
        let result = row.result.as_ref().map(ToString::to_string);
        let updated = row.updated_at.as_microsecond();
        let started = row.started_at.map(Timestamp::as_microsecond);
        let completed = row.completed_at.map(Timestamp::as_microsecond);
        sqlx::query!(
            "UPDATE tasks SET status = ?2, sandbox_id = ?3, assigned_agent_id = ?4, attempt = ?5, outcome = ?6,
                              result = ?7, error_message = ?8, updated_at = ?9, started_at = ?10,
                              completed_at = ?11
             WHERE id = ?1",
            id,
            status,
            sandbox_id,
            row.assigned_agent_id,
            row.attempt,
            outcome,
            result,
            row.error_message,
            updated,
            started,
            completed
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    /// What was asked by sandboxes that are over, and not answered.
    async fn withdraw_questions(&mut self) -> Result<(), sqlx::Error> {
        let over = self.draft.no_longer_asking();
        if over.is_empty() {
            return Ok(());
        }
        let (ids, now) = (json(&over), self.now().as_microsecond());
        sqlx::query!(
            "UPDATE questions SET state = 'withdrawn', answered_at = ?2,
                                  reason = 'the sandbox ended before it was answered'
             WHERE answered_at IS NULL AND sandbox_id IN (SELECT value FROM json_each(?1))",
            ids,
            now
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    /// What nobody took before the sandbox ended will not be taken; what was only taken will not be read.
    async fn expire_messages(&mut self) -> Result<(), sqlx::Error> {
        let over = self.draft.take_no_longer_told();
        if over.is_empty() {
            return Ok(());
        }
        let ids = json(&over);
        sqlx::query!(
            "UPDATE messages
             SET state = 'expired',
                 reason = CASE state WHEN 'queued' THEN 'the sandbox ended before it was taken'
                                     ELSE 'the sandbox ended after it was taken and before the agent read it' END
             WHERE state IN ('queued', 'handed_over') AND sandbox_id IN (SELECT value FROM json_each(?1))",
            ids
        )
        .execute(self.sql())
        .await?;
        Ok(())
    }

    async fn flush_feed(&mut self) -> Result<(), sqlx::Error> {
        let rows = std::mem::take(&mut self.draft.feed);
        let before = match self.draft.position {
            Some(position) => position,
            None => {
                sqlx::query_scalar!("SELECT position FROM feed_counter WHERE id = 1")
                    .fetch_one(self.sql())
                    .await?
            }
        };
        let position = bulk::insert_feed(self.sql(), before, &rows).await?;
        if position > before {
            sqlx::query!("UPDATE feed_counter SET position = ?1 WHERE id = 1", position)
                .execute(self.sql())
                .await?;
        }
        self.draft.published(rows, position);
        Ok(())
    }
}

/// A log as one row of the statement's argument.
fn log_arguments(changed: ChangedLog<'_>) -> impl serde::Serialize {
    let log = changed.log;
    (
        changed.sandbox_id.as_str(),
        log.last_seq,
        hex(&log.last_hash),
        log.heartbeat_count,
        log.first_heartbeat.map(Timestamp::as_microsecond),
        log.last_heartbeat.map(Timestamp::as_microsecond),
        log.story_count,
        log.noise_count,
        log.silence_seconds,
        changed.alive_until.map(Timestamp::as_microsecond),
    )
}
