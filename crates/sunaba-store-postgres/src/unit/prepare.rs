//! Locking what a transaction works on and having it read (`load`), all of it at the beginning.
//!
//! The order is the same for everybody: names, logs by id, sandboxes that are about to
//! be registered, tasks by id, projects by id. Each lock is its own statement and
//! what it protects is read after it: a statement that waited for a lock sees other
//! tables as they were before it waited.

use std::collections::{BTreeSet, HashMap};

use sunaba_store_sql::draft::Log;
use sunaba_store_sql::facts::Turn;
use sunaba_types::{SandboxId, TaskId, Timestamp};

use super::written::open_turn;
use super::{Needs, Unit};
use crate::rows::{hash, maybe_time, task_query};

/// Whether a transaction may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// Everything is locked and known.
    Yes,
    /// Another server made something first; from the beginning.
    Overtaken,
}

/// A log's end, which nobody else moves now.
#[derive(Debug)]
pub(super) struct LockedLog {
    pub(super) log: Log,
    pub(super) alive_until: Option<Timestamp>,
    pub(super) open_turn: Option<(i64, Turn)>,
}

pub(super) type LockedLogs = HashMap<String, LockedLog>;

impl Unit {
    /// Locks and reads. The moment of the transaction is the moment after the last lock, so that time does not
    /// run backwards in a log.
    pub(crate) async fn prepare(&mut self, mut needs: Needs) -> Result<Prepared, sqlx::Error> {
        self.find_callers(&mut needs).await?;
        self.lock_names(std::mem::take(&mut needs.names)).await?;
        let logs = self.lock_logs(&needs).await?;
        if self.lock_registrable(&needs, &logs).await? == Prepared::Overtaken {
            return Ok(Prepared::Overtaken);
        }
        self.load_sandboxes(logs).await?;
        self.lock_tasks(&mut needs).await?;
        self.lock_projects(&mut needs).await?;
        self.load_types().await?;
        self.load_noisy().await?;
        self.load_known(needs.events).await?;
        self.draft.now = self.clock.now();
        Ok(Prepared::Yes)
    }

    async fn find_callers(&mut self, needs: &mut Needs) -> Result<(), sqlx::Error> {
        if needs.calls.is_empty() {
            return Ok(());
        }
        let calls: Vec<String> = std::mem::take(&mut needs.calls).into_iter().collect();
        let callers = sqlx::query_scalar!("SELECT sandbox_id FROM model_calls WHERE id = ANY($1)", &calls)
            .fetch_all(self.sql())
            .await?;
        for caller in callers {
            if let Ok(id) = SandboxId::parse(caller) {
                needs.spender(&id);
            }
        }
        Ok(())
    }

    /// Names have no row to lock yet.
    async fn lock_names(&mut self, names: BTreeSet<String>) -> Result<(), sqlx::Error> {
        if names.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = names.into_iter().collect();
        sqlx::query!(
            r#"SELECT pg_advisory_xact_lock(key)::text AS locked
               FROM (SELECT DISTINCT hashtextextended(name, 5381) AS key FROM unnest($1::text[]) AS name
                     ORDER BY key OFFSET 0) AS keys"#,
            &names
        )
        .fetch_all(self.sql())
        .await?;
        Ok(())
    }

    async fn lock_logs(&mut self, needs: &Needs) -> Result<LockedLogs, sqlx::Error> {
        if needs.sandboxes.is_empty() {
            return Ok(HashMap::new());
        }
        let ids: Vec<String> = needs.sandboxes.iter().cloned().collect();
        let rows = sqlx::query!(
            "SELECT sandbox_id, last_seq, last_hash, heartbeat_count, first_heartbeat, last_heartbeat, story_count,
                    noise_count, type_count, noisy_count, silence_seconds, alive_until, open_turn
             FROM sandbox_log WHERE sandbox_id = ANY($1) ORDER BY sandbox_id FOR NO KEY UPDATE",
            &ids
        )
        .fetch_all(self.sql())
        .await?;
        let mut logs = HashMap::with_capacity(rows.len());
        for row in rows {
            const TABLE: &str = "sandbox_log";
            let key = row.sandbox_id;
            let log = Log {
                last_seq: row.last_seq,
                last_hash: hash(&row.last_hash, TABLE, "last_hash", &key)?,
                heartbeat_count: row.heartbeat_count,
                first_heartbeat: maybe_time(row.first_heartbeat, TABLE, "first_heartbeat", &key)?,
                last_heartbeat: maybe_time(row.last_heartbeat, TABLE, "last_heartbeat", &key)?,
                story_count: row.story_count,
                noise_count: row.noise_count,
                type_count: row.type_count,
                noisy_count: row.noisy_count,
                silence_seconds: row.silence_seconds,
            };
            let alive_until = maybe_time(row.alive_until, TABLE, "alive_until", &key)?;
            let open_turn = row.open_turn.map(|numbers| open_turn(&numbers, &key)).transpose()?;
            logs.insert(key, LockedLog { log, alive_until, open_turn });
        }
        Ok(logs)
    }

    /// A sandbox that is not there is made by one transaction only; who comes second begins again and finds it.
    async fn lock_registrable(&mut self, needs: &Needs, logs: &LockedLogs) -> Result<Prepared, sqlx::Error> {
        let unknown: Vec<String> =
            needs.registrable.iter().filter(|id| !logs.contains_key(*id)).cloned().collect();
        if unknown.is_empty() {
            return Ok(Prepared::Yes);
        }
        self.lock_names(unknown.iter().map(|id| format!("sandbox {id}")).collect()).await?;
        let made = sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT 1 FROM sandboxes WHERE id = ANY($1)) AS "made!""#,
            &unknown
        )
        .fetch_one(self.sql())
        .await?;
        Ok(if made { Prepared::Overtaken } else { Prepared::Yes })
    }

    async fn lock_tasks(&mut self, needs: &mut Needs) -> Result<(), sqlx::Error> {
        let of_sandboxes = self.draft.sandboxes.values().filter_map(|loaded| loaded.row.task_id.as_ref());
        needs.tasks.extend(of_sandboxes.map(TaskId::to_string));
        if needs.tasks.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = needs.tasks.iter().cloned().collect();
        let rows = task_query!("WHERE t.id = ANY($1) ORDER BY t.id FOR NO KEY UPDATE", &ids)
            .fetch_all(self.sql())
            .await?;
        for row in rows {
            self.draft.know_task(row.try_into()?);
        }
        Ok(())
    }

    async fn lock_projects(&mut self, needs: &mut Needs) -> Result<(), sqlx::Error> {
        for (id, loaded) in &self.draft.sandboxes {
            if let Some(project) = &loaded.row.project_id
                && needs.spenders.contains(id.as_str())
            {
                needs.projects.insert(project.to_string());
            }
        }
        if needs.projects.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = needs.projects.iter().cloned().collect();
        sqlx::query!("SELECT id FROM projects WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE", &ids)
            .fetch_all(self.sql())
            .await?;
        Ok(())
    }
}
