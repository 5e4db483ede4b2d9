//! Whether a sandbox's token still speaks for its sandbox: the fence of every write that is not an event.
//! (An event's own fence is in `ingest.rs`: it answers retries of what is stored for ever.)

use sunaba_store::{Error, Result, Writer};
use sunaba_types::limits::ENDED_GRACE_SECONDS;
use sunaba_types::{SandboxId, Timestamp};

use super::{Draft, LoadedSandbox};

/// What an attempt is told that is no longer the present one.
pub fn superseded() -> Error {
    Error::conflict("attempt_superseded", "a later attempt has taken this one's place; stop working")
}

/// What ended long ago writes no more.
pub fn refuse_long_ended(ended_at: Option<Timestamp>, now: Timestamp) -> Result<()> {
    if ended_at.is_some_and(|at| now.duration_since(at).as_secs() >= ENDED_GRACE_SECONDS) {
        return Err(Error::conflict("sandbox_ended", "the sandbox ended more than ten minutes ago"));
    }
    Ok(())
}

impl Draft {
    /// The sandbox, which must exist and for which this writer must stand.
    pub fn standing_sandbox(&mut self, id: &SandboxId, by: Writer) -> Result<&mut LoadedSandbox> {
        let ended_at = self.get_sandbox(id)?.row.ended_at;
        if let Writer::Sandbox { .. } = by {
            if self.is_superseded(id, by) {
                return Err(superseded());
            }
            refuse_long_ended(ended_at, self.now)?;
        }
        self.get_sandbox(id)
    }
}
