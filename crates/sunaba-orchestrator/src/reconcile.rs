//! Compares rows with what the providers have, in both directions.
//!
//! What is at a provider without a living row is deleted; a row that should have a sandbox and has none fails
//! with the reason, and its task is tried again. A provider or a store that does not answer decides nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sunaba_sandbox::{Provider, Status};
use sunaba_store::{HeldBy, SandboxFilter};
use sunaba_types::{Sandbox, SandboxId, SandboxState};
use tokio::time::Instant;

use crate::watch::{LIVING, LOOK_MAX};
use crate::{Parts, driver, going_on, setup};

/// One comparison of everything. Whether all could be asked and done.
pub(crate) async fn reconcile(parts: &Parts, seen: &SeenWaiting) -> bool {
    let mut went_well = true;
    for provider in parts.providers.values() {
        went_well &= remove_leftovers(parts, provider).await;
        went_well &= fail_rows_without_a_sandbox(parts, provider).await;
    }
    went_well &= fail_what_waited_too_long(parts, seen).await;
    went_well &= clear_layers(parts).await;
    went_well
}

/// Deletes every sandbox at the provider that no living row speaks of.
async fn remove_leftovers(parts: &Parts, provider: &Arc<dyn Provider>) -> bool {
    let ids = match provider.list().await {
        Ok(ids) => ids,
        Err(error) => {
            tracing::warn!(provider = provider.name(), %error, "cannot list the provider's sandboxes");
            return false;
        }
    };
    let mut went_well = true;
    for id in ids {
        match is_leftover(parts, &id).await {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                tracing::warn!(%error, "cannot read a sandbox's row; leaving it alone");
                went_well = false;
                continue;
            }
        }
        match provider.delete(&id).await {
            Ok(()) => {
                tracing::info!(sandbox = %id, "removed what was left of a sandbox");
                if let Err(error) = parts.store.revoke_tokens_of(&id).await {
                    tracing::warn!(sandbox = %id, %error, "cannot revoke the tokens of a sandbox that is over");
                    went_well = false;
                }
            }
            Err(error) => {
                tracing::warn!(sandbox = %id, %error, "cannot remove what is left of a sandbox");
                went_well = false;
            }
        }
    }
    went_well
}

async fn is_leftover(parts: &Parts, id: &SandboxId) -> sunaba_store::Result<bool> {
    if setup::is_setup(id) {
        return Ok(!parts.shelf.is_running(id));
    }
    let row = parts.store.find_sandbox(id).await?;
    Ok(row.is_none_or(|sandbox| sandbox.state.is_terminal()))
}

/// Fails what should run and is not there. What is being created has a driver that knows better.
async fn fail_rows_without_a_sandbox(parts: &Parts, provider: &Arc<dyn Provider>) -> bool {
    let filter = SandboxFilter {
        states: vec![SandboxState::Running],
        provider: Some(provider.name().to_owned()),
        held_by: Some(HeldBy::Node(parts.nodes.me().clone())),
        limit: LOOK_MAX,
        ..SandboxFilter::default()
    };
    let rows = match parts.store.list_sandboxes(filter).await {
        Ok(rows) => rows,
        Err(error) => {
            tracing::warn!(%error, "cannot read the sandboxes; looking again within a minute");
            return false;
        }
    };
    let mut went_well = true;
    for row in rows {
        match provider.status(&row.id).await {
            Ok(Status::Absent) => {
                let words = format!("its sandbox is gone at the provider {}", provider.name());
                tracing::warn!(sandbox = %row.id, "a sandbox that should run is not there");
                going_on::replace(parts, &row.id, &words).await;
            }
            Ok(_) => {}
            // Its driver asks too, and says what is wrong.
            Err(_) => went_well = false,
        }
    }
    went_well
}

/// How long this process must itself have seen a sandbox wait before it believes that it waited too long: a clock
/// that jumped, here or where the row was written, makes nothing old.
pub(crate) const SEEN_FOR: Duration = Duration::from_secs(15 * 60);

/// What waits, and since when this process sees it wait.
#[derive(Debug, Default)]
pub(crate) struct SeenWaiting(Mutex<HashMap<SandboxId, Instant>>);

impl SeenWaiting {
    /// Notes what waits now, forgets the rest, and says how long each was seen.
    fn note(&self, rows: Vec<Sandbox>) -> Vec<(Sandbox, Duration)> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *seen);
        let noted = rows.into_iter().map(|row| {
            let since = before.get(&row.id).copied().unwrap_or_else(Instant::now);
            seen.insert(row.id.clone(), since);
            (row, since.elapsed())
        });
        noted.collect()
    }
}

/// Fails what was never begun, whatever it waits for: its turn, or a provider that no server has any more.
async fn fail_what_waited_too_long(parts: &Parts, seen: &SeenWaiting) -> bool {
    let filter =
        SandboxFilter { states: vec![SandboxState::Pending], limit: LOOK_MAX, ..SandboxFilter::default() };
    let rows = match parts.store.list_sandboxes(filter).await {
        Ok(rows) => rows,
        Err(error) => {
            tracing::warn!(%error, "cannot read the sandboxes; looking again within a minute");
            return false;
        }
    };
    let most = parts.settings.pending_deadline;
    for (row, seen_for) in seen.note(rows) {
        let waited = parts.clock.now().duration_since(row.state_entered_at).as_secs();
        let is_young = u64::try_from(waited).unwrap_or(0) < most.as_secs() || seen_for < SEEN_FOR.min(most);
        if row.provider == "external" || is_young {
            continue;
        }
        let elsewhere = parts.nodes.others_have(&row.provider).await.unwrap_or(true);
        let why = match parts.provider(&row.provider) {
            None if !elsewhere => format!("; no server here has the provider {}", row.provider),
            _ => String::new(),
        };
        driver::fail(parts, &row.id, &format!("it waited {} h to be started{why}", most.as_secs() / 3600))
            .await;
    }
    true
}

/// Removes what setup commands made and nobody uses.
async fn clear_layers(parts: &Parts) -> bool {
    let (mut living, mut went_well) = (HashSet::new(), true);
    for id in parts.shelf.users() {
        match parts.store.find_sandbox(&id).await {
            Ok(row) if row.as_ref().is_none_or(|row| row.state.is_terminal()) => {}
            // A store that does not answer takes nothing away from anybody.
            row => {
                went_well &= row.is_ok();
                living.insert(id);
            }
        }
    }
    let (now, set) = (parts.clock.now().into(), &parts.settings);
    parts.shelf.clear(&living, now, set.layers_max_age, set.layers_max_bytes).await;
    went_well
}

/// The names of providers that living rows of this node have, and this process has not.
pub(crate) async fn unknown_providers(parts: &Parts) -> HashSet<String> {
    let held_by = Some(HeldBy::Node(parts.nodes.me().clone()));
    let filter =
        SandboxFilter { states: LIVING.to_vec(), held_by, limit: LOOK_MAX, ..SandboxFilter::default() };
    let rows = parts.store.list_sandboxes(filter).await.unwrap_or_default();
    let names = rows.into_iter().map(|row| row.provider);
    names.filter(|name| name != "external" && !parts.providers.contains_key(name)).collect()
}

#[cfg(test)]
mod tests {
    use sunaba_types::{FakeClock, TaskState};

    use super::*;
    use crate::made::{parts, sandbox};

    #[tokio::test]
    async fn nothing_is_pending_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let mut parts = parts(dir.path()).await;
        let (waiting, seen) = (sandbox(&parts).await, SeenWaiting::default());
        let row = async |parts: &Parts| parts.store.find_sandbox(&waiting.id).await.unwrap().unwrap();
        assert!(reconcile(&parts, &seen).await);
        assert_eq!(row(&parts).await.state, SandboxState::Pending, "a provider may come back within a day");
        parts.settings.pending_deadline = Duration::ZERO;
        assert!(reconcile(&parts, &seen).await);
        let ended = row(&parts).await;
        assert_eq!(ended.state, SandboxState::Failed);
        let words = ended.reason.unwrap_or_default();
        assert!(words.contains("to be started; no server here has the provider local"), "{words}");
        let task = parts.store.find_task(&waiting.task_id.unwrap()).await.unwrap().unwrap();
        assert_eq!(task.status, TaskState::Failed, "its task does not wait either");
        parts.store.close().await;
        assert!(!reconcile(&parts, &seen).await, "a store that does not answer is no success");
    }

    #[tokio::test]
    async fn a_clock_that_jumps_makes_nothing_old() {
        let dir = tempfile::tempdir().unwrap();
        let mut parts = parts(dir.path()).await;
        let waiting = sandbox(&parts).await;
        let in_two_days = parts.clock.now() + Duration::from_secs(48 * 3600);
        parts.clock = Arc::new(FakeClock::at(in_two_days));
        assert!(reconcile(&parts, &SeenWaiting::default()).await);
        let row = parts.store.find_sandbox(&waiting.id).await.unwrap().unwrap();
        assert_eq!(row.state, SandboxState::Pending);
    }
}
