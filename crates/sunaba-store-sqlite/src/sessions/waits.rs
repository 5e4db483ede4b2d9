//! Tasks that wait.

use async_trait::async_trait;
use sunaba_store::{Result, Suspension, Waits};
use sunaba_types::{Sandbox, SandboxId};

use crate::SqliteStore;
use crate::fault::{Fault, told};
use crate::rows::readable;
use crate::unit::Unit;
use crate::writer::Command;

pub(super) struct Suspend {
    pub(super) id: SandboxId,
    pub(super) suspension: Suspension,
}

#[async_trait]
impl Command<Unit> for Suspend {
    type Output = Sandbox;

    async fn run(&self, unit: &mut Unit) -> Result<Sandbox, Fault> {
        unit.get_sandbox(&self.id).await?;
        let (key, now) = (self.id.as_str(), unit.now().as_microsecond());
        let asks = sqlx::query_scalar!(
            r#"SELECT count(*) AS "open!: i64" FROM questions WHERE sandbox_id = ?1 AND answered_at IS NULL"#,
            key
        )
        .fetch_one(unit.sql())
        .await?;
        if unit.draft.suspend(&self.id, &self.suspension, asks > 0)? {
            let until = match self.suspension.waits {
                Waits::Input => None,
                Waits::Quota { until } => Some(until.as_microsecond()),
            };
            sqlx::query!(
                // It may have been suspended before and have gone on.
                "INSERT INTO waits (sandbox_id, until, created_at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (sandbox_id) DO UPDATE
                 SET until = excluded.until, created_at = excluded.created_at, words = NULL",
                key,
                until,
                now
            )
            .execute(unit.sql())
            .await?;
        }
        Ok(unit.draft.get_sandbox(&self.id)?.row.clone())
    }
}

/// Notes what the agent of a suspended sandbox's task is told when it goes on.
pub(crate) async fn note_answer(unit: &mut Unit, id: &SandboxId, words: &str) -> Result<(), Fault> {
    let key = id.as_str();
    sqlx::query!(
        "UPDATE waits SET words = coalesce(words || char(10) || char(10), '') || ?2
         WHERE sandbox_id = ?1 AND until IS NULL",
        key,
        words
    )
    .execute(unit.sql())
    .await?;
    Ok(())
}

pub(super) struct Wake(pub(super) SandboxId);

#[async_trait]
impl Command<Unit> for Wake {
    type Output = Option<Sandbox>;

    async fn run(&self, unit: &mut Unit) -> Result<Option<Sandbox>, Fault> {
        if !unit.get_sandbox(&self.0).await?.row.state.is_terminal() {
            return Ok(None);
        }
        let (key, now) = (self.0.as_str(), unit.now().as_microsecond());
        let due = sqlx::query!(
            "DELETE FROM waits
             WHERE sandbox_id = ?1 AND (until IS NULL OR until <= ?2)
               AND NOT EXISTS (SELECT 1 FROM questions AS q
                               WHERE q.sandbox_id = waits.sandbox_id AND q.answered_at IS NULL)
             RETURNING words, until",
            key,
            now
        )
        .fetch_optional(unit.sql())
        .await?;
        let Some(due) = due else { return Ok(None) };
        let last = unit.last_transcript_of(&self.0).await?;
        match unit.draft.wake(&self.0, due.until.is_none(), due.words, last.as_ref())? {
            Some(new) => Ok(Some(unit.make_next(&self.0, &new).await?)),
            None => Ok(None),
        }
    }
}

impl SqliteStore {
    pub(super) async fn read_due_waits(&self, limit: u32) -> Result<Vec<SandboxId>> {
        let (now, limit) = (self.clock.now().as_microsecond(), i64::from(limit));
        let due = sqlx::query_scalar!(
            "SELECT w.sandbox_id FROM waits AS w JOIN sandboxes AS s ON s.id = w.sandbox_id
             WHERE s.ended_at IS NOT NULL AND (w.until IS NULL OR w.until <= ?1)
               AND NOT EXISTS (SELECT 1 FROM questions AS q
                               WHERE q.sandbox_id = w.sandbox_id AND q.answered_at IS NULL)
             ORDER BY w.created_at, w.sandbox_id LIMIT ?2",
            now,
            limit
        )
        .fetch_all(&self.readers)
        .await
        .map_err(told)?;
        due.into_iter()
            .map(|id| Ok(readable(SandboxId::parse(&*id).ok(), "waits", "sandbox_id", &id)?))
            .collect()
    }
}
