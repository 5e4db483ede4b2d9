//! Whether a sandbox's token still speaks for its sandbox: the fence of every write that is not an event.
//! (An event's own fence is in `unit/ingest.rs`: it answers retries of what is stored for ever.)

use sunaba_store::{Error, Result, Writer};
use sunaba_types::limits::ENDED_GRACE_SECONDS;
use sunaba_types::{SandboxId, Timestamp};

use crate::PostgresStore;
use crate::fault::Fault;
use crate::page::InTime as _;
use crate::rows::maybe_time;
use crate::unit::{LoadedSandbox, Unit};

pub(crate) fn superseded() -> Error {
    Error::conflict("attempt_superseded", "a later attempt has taken this one's place; stop working")
}

fn refuse_long_ended(ended_at: Option<Timestamp>, now: Timestamp) -> Result<()> {
    if ended_at.is_some_and(|at| now.duration_since(at).as_secs() >= ENDED_GRACE_SECONDS) {
        return Err(Error::conflict("sandbox_ended", "the sandbox ended more than ten minutes ago"));
    }
    Ok(())
}

impl Unit {
    /// The sandbox, which must exist and for which this writer must stand.
    pub(crate) fn standing_sandbox(
        &mut self,
        id: &SandboxId,
        by: Writer,
    ) -> Result<&mut LoadedSandbox, Fault> {
        let ended_at = self.get_sandbox(id)?.row.ended_at;
        if let Writer::Sandbox { .. } = by {
            if self.is_superseded(id, by) {
                return Err(superseded().into());
            }
            refuse_long_ended(ended_at, self.now())?;
        }
        self.get_sandbox(id)
    }
}

impl PostgresStore {
    /// The same as a look, outside the writer's transaction.
    pub(crate) async fn read_standing(&self, id: &SandboxId, by: Writer) -> Result<()> {
        let Writer::Sandbox { attempt } = by else { return Ok(()) };
        let key = id.as_str();
        let row = sqlx::query!(
            r#"SELECT s.attempt, s.ended_at, coalesce(t.attempt, s.attempt) AS "current!"
               FROM sandboxes AS s LEFT JOIN tasks AS t ON t.id = s.task_id WHERE s.id = $1"#,
            key
        )
        .fetch_optional(&self.readers)
        .in_time()
        .await?
        .ok_or_else(|| Error::not_found("sandbox", id))?;
        if attempt != row.attempt || attempt != row.current {
            return Err(superseded());
        }
        let ended_at = maybe_time(row.ended_at, "sandboxes", "ended_at", key)?;
        refuse_long_ended(ended_at, self.clock.now())
    }
}
