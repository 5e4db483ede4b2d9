//! Reading what a transaction has locked.

use std::collections::HashMap;

use sunaba_store_sql::draft::{KnownRow, LoadedSandbox};
use sunaba_types::{Sandbox, SandboxId};

use super::Unit;
use super::prepare::{LockedLog, LockedLogs};
use crate::fault::Unreadable;
use crate::rows::{readable, sandbox_query};

/// Keys of two columns as PostgreSQL takes them.
fn columns(pairs: impl IntoIterator<Item = (String, String)>) -> (Vec<String>, Vec<String>) {
    pairs.into_iter().unzip()
}

impl Unit {
    /// Makes the sandboxes of these logs known: those that nobody has changed since as they are remembered,
    /// the others as they are read.
    pub(super) async fn load_sandboxes(&mut self, mut logs: LockedLogs) -> Result<(), sqlx::Error> {
        if logs.is_empty() {
            return Ok(());
        }
        self.load_versions(&logs).await?;
        let mut unread = Vec::new();
        for (id, version) in &self.versions {
            let remembered = self.recent.take(id).filter(|known| known.version == Some(*version));
            let Some(known) = remembered else {
                unread.push(id.to_string());
                continue;
            };
            let log = readable(logs.remove(id.as_str()), "sandbox_log", "sandbox_id", id.as_str())?;
            let mut loaded = known.loaded;
            if loaded.log.last_hash != log.log.last_hash {
                loaded.types.clear();
                loaded.noisy.clear();
            }
            self.draft.sandboxes.insert(id.clone(), with_log(loaded, log));
        }
        self.read_sandboxes(unread, logs).await
    }

    /// Which transaction wrote each row.
    async fn load_versions(&mut self, logs: &LockedLogs) -> Result<(), sqlx::Error> {
        let ids: Vec<String> = logs.keys().cloned().collect();
        let rows = sqlx::query!(
            r#"SELECT id, xmin::text::bigint AS "version!" FROM sandboxes WHERE id = ANY($1)"#,
            &ids
        )
        .fetch_all(self.sql())
        .await?;
        let versions: Result<HashMap<_, _>, Unreadable> =
            rows.into_iter().map(|row| Ok((sandbox_id(row.id)?, row.version))).collect();
        self.versions = versions?;
        Ok(())
    }

    async fn read_sandboxes(&mut self, ids: Vec<String>, mut logs: LockedLogs) -> Result<(), sqlx::Error> {
        if ids.is_empty() {
            return Ok(());
        }
        let rows = sandbox_query!("WHERE s.id = ANY($1)", &ids).fetch_all(self.sql()).await?;
        for row in rows {
            let log = readable(logs.remove(&row.id), "sandbox_log", "sandbox_id", &row.id)?;
            let loaded = with_log(LoadedSandbox::fresh(Sandbox::try_from(row)?), log);
            self.draft.sandboxes.insert(loaded.row.id.clone(), loaded);
        }
        Ok(())
    }

    /// Reads how many events of each type there are, of sandboxes of which that is not remembered.
    pub(super) async fn load_types(&mut self) -> Result<(), sqlx::Error> {
        let unread = self.ids_of(|loaded| !loaded.knows_its_types());
        if unread.is_empty() {
            return Ok(());
        }
        let rows = sqlx::query!(
            r#"SELECT sandbox_id AS "sandbox_id!", event_type AS "event_type!", count AS "count!"
               FROM event_type_counts WHERE sandbox_id = ANY($1)"#,
            &unread
        )
        .fetch_all(self.sql())
        .await?;
        for row in rows {
            if let Some(loaded) = self.draft.sandboxes.get_mut(row.sandbox_id.as_str()) {
                loaded.types.insert(row.event_type, row.count);
            }
        }
        Ok(())
    }

    /// Reads which search calls are open, of sandboxes of which that is not remembered.
    pub(super) async fn load_noisy(&mut self) -> Result<(), sqlx::Error> {
        let unread = self.ids_of(|loaded| !loaded.knows_its_searches());
        if unread.is_empty() {
            return Ok(());
        }
        let rows = sqlx::query!(
            "SELECT sandbox_id, tool_use_id FROM noisy_calls WHERE sandbox_id = ANY($1)",
            &unread
        )
        .fetch_all(self.sql())
        .await?;
        for row in rows {
            if let Some(loaded) = self.draft.sandboxes.get_mut(row.sandbox_id.as_str()) {
                loaded.noisy.insert(row.tool_use_id);
            }
        }
        Ok(())
    }

    fn ids_of(&self, wanted: impl Fn(&LoadedSandbox) -> bool) -> Vec<String> {
        let all = self.draft.sandboxes.iter();
        all.filter(|(_, loaded)| wanted(loaded)).map(|(id, _)| id.to_string()).collect()
    }

    /// Finds out which event ids are taken. Each is looked for as the next one in order, because only the right
    /// index has that order.
    pub(super) async fn load_known(&mut self, asked: Vec<(String, String)>) -> Result<(), sqlx::Error> {
        if asked.is_empty() || self.draft.sandboxes.is_empty() {
            return Ok(());
        }
        let (sandboxes, ids) = columns(asked);
        let found = sqlx::query_as!(
            KnownRow,
            "SELECT e.sandbox_id, e.event_id, e.seq, e.created_at, e.event_type, e.source, e.payload_hash, e.step
             FROM unnest($1::text[], $2::text[]) AS asked (sandbox_id, event_id)
             CROSS JOIN LATERAL (SELECT next.sandbox_id, next.event_id, next.seq, next.created_at, next.event_type,
                                        next.source, next.payload_hash, next.step
                                 FROM events AS next
                                 WHERE next.sandbox_id = asked.sandbox_id AND next.event_id >= asked.event_id
                                 ORDER BY next.event_id LIMIT 1) AS e
             WHERE e.event_id = asked.event_id",
            &sandboxes,
            &ids
        )
        .fetch_all(self.sql())
        .await?;
        for row in found {
            self.draft.recall(row)?;
        }
        Ok(())
    }
}

fn sandbox_id(key: String) -> Result<SandboxId, Unreadable> {
    let row = key.clone();
    readable(SandboxId::parse(key).ok(), "events", "sandbox_id", &row)
}

fn with_log(mut loaded: Box<LoadedSandbox>, held: LockedLog) -> Box<LoadedSandbox> {
    loaded.log = held.log;
    loaded.row.alive_until = held.alive_until;
    loaded.row.silence_seconds = loaded.log.silence_seconds;
    loaded.open_turn = held.open_turn;
    loaded
}
