//! Whether a sandbox's token still speaks for its sandbox.

use sunaba_store::{Error, Result, Writer};
use sunaba_store_sql::draft::{LoadedSandbox, refuse_long_ended, superseded};
use sunaba_types::SandboxId;

use crate::SqliteStore;
use crate::fault::{Fault, told};
use crate::rows::maybe_time;
use crate::unit::Unit;

impl Unit {
    /// The sandbox, which must exist and for which this writer must stand.
    pub(crate) async fn standing_sandbox(
        &mut self,
        id: &SandboxId,
        by: Writer,
    ) -> Result<&mut LoadedSandbox, Fault> {
        self.find_sandbox(id).await?;
        Ok(self.draft.standing_sandbox(id, by)?)
    }
}

impl SqliteStore {
    /// The same as a look, outside the writer's transaction.
    pub(crate) async fn read_standing(&self, id: &SandboxId, by: Writer) -> Result<()> {
        let Writer::Sandbox { attempt } = by else { return Ok(()) };
        let key = id.as_str();
        let row = sqlx::query!(
            r#"SELECT s.attempt, s.ended_at, coalesce(t.attempt, s.attempt) AS "current!: i64"
               FROM sandboxes AS s LEFT JOIN tasks AS t ON t.id = s.task_id WHERE s.id = ?1"#,
            key
        )
        .fetch_optional(&self.readers)
        .await
        .map_err(told)?
        .ok_or_else(|| Error::not_found("sandbox", id))?;
        if attempt != row.attempt || attempt != row.current {
            return Err(superseded());
        }
        let ended_at = maybe_time(row.ended_at, "sandboxes", "ended_at", key)?;
        refuse_long_ended(ended_at, self.clock.now())
    }
}
