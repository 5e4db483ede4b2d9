//! A push that has arrived: checked and handed to git under the project's lock. A refused one is answered in git's own
//! words, so that git prints the reason beside the ref.

use std::fs::File;
use std::time::Duration;

use axum::response::Response;
use serde_json::{Value, json};
use sunaba_git::{Mirror, ReceiveCommands, Service, read_report, refusal_report};
use sunaba_types::Sandbox;

use super::guard;
use super::handlers::{broken, pushed};
use super::quarantine::{GRACE, Quarantine};
use crate::admission::Slot;
use crate::{Caller, GatewayState, record, standing};

/// How long a push waits for the project's other pushes.
const LOCK_PATIENCE: Duration = Duration::from_secs(120);

/// A push that has arrived.
pub(super) struct Push {
    pub(super) state: GatewayState,
    pub(super) caller: Caller,
    pub(super) mirror: Mirror,
    pub(super) commands: ReceiveCommands,
    /// A push whose client went away counts until it is done.
    pub(super) slot: Slot,
}

impl Push {
    pub(super) async fn run(self, file: File) -> Response {
        let _counts = &self.slot;
        let project = self.caller.project_id.as_ref().map_or("", |id| id.as_str());
        let guard = match self.state.config.locks.lock_within(project, LOCK_PATIENCE).await {
            Ok(guard) => guard,
            Err(error) => return self.refuse(&error.to_string()).await,
        };
        let size = file.metadata().map_or(u64::MAX, |file| file.len());
        let sandbox = match self.permitted(size).await {
            Ok(sandbox) => sandbox,
            Err(reason) => {
                drop(guard);
                return self.refuse(&reason).await;
            }
        };
        let mut report = Vec::new();
        let result = self.hand_to_git(&sandbox, file, size, &mut report).await;
        drop(guard);
        let result = match result {
            Ok(result) => result,
            Err(reason) => return self.refuse(&reason).await,
        };
        let error = result.as_ref().err().map(ToString::to_string);
        self.record(true, error.as_deref(), &report).await;
        match result {
            // Git says in its report what it did; an exit status alone is no answer.
            Err(error) if report.is_empty() => broken(&self.caller, &error),
            _ => pushed(report),
        }
    }

    /// Whether the sandbox may push this, and so much.
    async fn permitted(&self, size: u64) -> Result<Sandbox, String> {
        let sandbox = standing::check(&*self.state.config.store, &self.caller).await;
        let sandbox = sandbox.map_err(|reason| reason.to_string())?;
        guard::check(&sandbox, &self.commands.updates)?;
        self.has_room(&sandbox, size)?;
        Ok(sandbox)
    }

    fn has_room(&self, sandbox: &Sandbox, bytes: u64) -> Result<(), String> {
        let room = &self.state.config.push_room;
        room.check_disk(&self.state.config.git_root)?;
        if bytes > room.left(sandbox) { Err(room.too_much(sandbox)) } else { Ok(()) }
    }

    /// Lets git take it, and ends git when the push unfolds to more than there is room for.
    async fn hand_to_git(
        &self,
        sandbox: &Sandbox,
        file: File,
        size: u64,
        report: &mut Vec<u8>,
    ) -> Result<sunaba_git::Result<()>, String> {
        let mut quarantine = Quarantine::of(self.mirror.dir());
        let file = tokio::fs::File::from_std(file);
        let refused = tokio::select! {
            result = self.mirror.rpc(Service::ReceivePack, None, file, report) => Ok(result),
            reason = quarantine.watch(|bytes| self.has_room(sandbox, bytes)) => Err(reason),
        };
        match &refused {
            Ok(_) => self.state.config.push_room.count(&sandbox.id, size.max(quarantine.most_bytes)),
            Err(_) => quarantine.clear(GRACE).await,
        }
        refused
    }

    async fn refuse(&self, reason: &str) -> Response {
        self.record(false, Some(reason), &[]).await;
        pushed(refusal_report(&self.commands, reason))
    }

    async fn record(&self, allowed: bool, reason: Option<&str>, report: &[u8]) {
        if self.commands.updates.is_empty() {
            return; // The empty request by which clients try whether they may push.
        }
        let outcome = read_report(&self.commands, report);
        let refs: Vec<Value> = self
            .commands
            .updates
            .iter()
            .map(|update| {
                let seen = outcome.iter().find(|report| report.name == update.name);
                let refused =
                    if allowed { seen.and_then(|report| report.refused.as_deref()) } else { reason };
                json!({
                    "name": update.name,
                    "old": update.old,
                    "new": update.new,
                    "written": seen.is_some_and(|report| report.refused.is_none()),
                    "refused": refused,
                })
            })
            .collect();
        let service = Service::ReceivePack.as_str();
        let payload = json!({"service": service, "allowed": allowed, "reason": reason, "refs": refs});
        record::git(&self.state, &self.caller.sandbox_id, &payload).await;
    }
}
