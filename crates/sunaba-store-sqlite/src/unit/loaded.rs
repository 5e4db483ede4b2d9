//! Reading what the writer does not know yet.

use sunaba_store::Error;
use sunaba_store_sql::draft::{LoadedSandbox, Log};
use sunaba_types::{SandboxId, Task, TaskId};

use super::Unit;
use crate::fault::Fault;
use crate::rows::{hash, maybe_time, sandbox_query, task_query};

impl Unit {
    /// The sandbox and, if it has one, its task; both stay known.
    pub(crate) async fn find_sandbox(&mut self, id: &SandboxId) -> Result<Option<&mut LoadedSandbox>, Fault> {
        if !self.draft.sandboxes.contains_key(id) {
            let Some(loaded) = self.read_sandbox(id).await? else { return Ok(None) };
            if let Some(task_id) = loaded.row.task_id.clone() {
                self.find_task(&task_id).await?;
            }
            self.draft.sandboxes.insert(id.clone(), loaded);
        }
        Ok(self.draft.find_sandbox(id))
    }

    /// The sandbox, which must exist.
    pub(crate) async fn get_sandbox(&mut self, id: &SandboxId) -> Result<&mut LoadedSandbox, Fault> {
        self.find_sandbox(id).await?.ok_or_else(|| Error::not_found("sandbox", id).into())
    }

    /// The task; it stays known.
    pub(crate) async fn find_task(&mut self, id: &TaskId) -> Result<Option<&mut Task>, Fault> {
        if !self.draft.tasks.contains_key(id) {
            let found = task_query!("WHERE t.id = ?1", id.as_str()).fetch_optional(self.sql()).await?;
            let Some(found) = found else { return Ok(None) };
            self.draft.know_task(found.try_into()?);
        }
        Ok(self.draft.find_task(id))
    }

    async fn read_sandbox(&mut self, id: &SandboxId) -> Result<Option<Box<LoadedSandbox>>, Fault> {
        let key = id.as_str();
        let Some(row) = sandbox_query!("WHERE s.id = ?1", key).fetch_optional(self.sql()).await? else {
            return Ok(None);
        };
        let mut loaded = LoadedSandbox::fresh(row.try_into()?);
        loaded.log = self.read_log(key).await?;
        let types =
            sqlx::query!("SELECT event_type, count FROM event_type_counts WHERE sandbox_id = ?1", key)
                .fetch_all(self.sql())
                .await?;
        loaded.log.type_count = count(types.len());
        loaded.types = types.into_iter().map(|row| (row.event_type, row.count)).collect();
        let noisy = sqlx::query_scalar!("SELECT tool_use_id FROM noisy_calls WHERE sandbox_id = ?1", key)
            .fetch_all(self.sql())
            .await?;
        loaded.log.noisy_count = count(noisy.len());
        loaded.noisy = noisy.into_iter().collect();
        Ok(Some(loaded))
    }

    async fn read_log(&mut self, key: &str) -> Result<Log, Fault> {
        let row = sqlx::query!(
            "SELECT last_seq, last_hash, heartbeat_count, first_heartbeat, last_heartbeat, story_count,
                    noise_count, silence_seconds
             FROM sandbox_log WHERE sandbox_id = ?1",
            key
        )
        .fetch_one(self.sql())
        .await?;
        Ok(Log {
            last_seq: row.last_seq,
            last_hash: hash(&row.last_hash, "sandbox_log", "last_hash", key)?,
            heartbeat_count: row.heartbeat_count,
            first_heartbeat: maybe_time(row.first_heartbeat, "sandbox_log", "first_heartbeat", key)?,
            last_heartbeat: maybe_time(row.last_heartbeat, "sandbox_log", "last_heartbeat", key)?,
            story_count: row.story_count,
            noise_count: row.noise_count,
            // Counted when they are read.
            type_count: 0,
            noisy_count: 0,
            silence_seconds: row.silence_seconds,
        })
    }
}

fn count(rows: usize) -> i64 {
    i64::try_from(rows).expect("types and calls are bounded")
}
