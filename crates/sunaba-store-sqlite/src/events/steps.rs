//! Steps: found by the events that carry them.
//!
//! There is no index of steps: our worker's come with `agent.step`, and of event types there is one.

use sunaba_store::{Result, STEP_REACH, StepAt};

use crate::SqliteStore;
use crate::fault::told;
use crate::page::in_time;
use crate::rows::readable;

fn found(key: &str, seq: i64, event_id: String, step: &str) -> Result<StepAt> {
    let step = readable(serde_json::from_str(step).ok(), "events", "step", key)?;
    Ok(StepAt { seq, event_id, step })
}

impl SqliteStore {
    pub(super) async fn read_step_before(&self, key: &str, at_seq: i64) -> Result<Option<StepAt>> {
        let row = sqlx::query!(
            r#"SELECT seq AS "seq!: i64", event_id AS "event_id!: String", step AS "step!: String" FROM (
                   SELECT seq, event_id, step FROM (
                       SELECT e.seq, e.event_id, e.step FROM events e
                       WHERE e.sandbox_id = ?1 AND e.event_type = 'agent.step' AND e.seq <= ?2
                             AND e.step IS NOT NULL
                       ORDER BY e.seq DESC LIMIT 1
                   ) AS told
                   UNION ALL
                   SELECT seq, event_id, step FROM (
                       SELECT e.seq, e.event_id, e.step FROM events e
                       WHERE e.sandbox_id = ?1 AND e.seq <= ?2 AND e.seq > ?2 - ?3 AND e.step IS NOT NULL
                       ORDER BY e.seq DESC LIMIT 1
                   ) AS others
               ) AS both_kinds ORDER BY seq DESC LIMIT 1"#,
            key,
            at_seq,
            STEP_REACH
        )
        .fetch_optional(&self.readers);
        let row = in_time(async { row.await.map_err(told) }).await?;
        row.map(|row| found(key, row.seq, row.event_id, &row.step)).transpose()
    }

    pub(super) async fn read_step_after(&self, key: &str, seq: i64) -> Result<Option<StepAt>> {
        let row = sqlx::query!(
            r#"SELECT e.seq AS "seq!: i64", e.event_id AS "event_id!: String", e.step AS "step!: String" FROM events e
               WHERE e.sandbox_id = ?1 AND e.seq > ?2 AND e.seq <= ?2 + ?3 AND e.step IS NOT NULL
               ORDER BY e.seq LIMIT 1"#,
            key,
            seq,
            STEP_REACH
        )
        .fetch_optional(&self.readers);
        let row = in_time(async { row.await.map_err(told) }).await?;
        row.map(|row| found(key, row.seq, row.event_id, &row.step)).transpose()
    }
}
