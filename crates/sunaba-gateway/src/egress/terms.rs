//! Whether a sandbox still has its say, and on what policy it goes out; remembered for a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sunaba_engine::egress::{InvalidEgress, Policy};
use sunaba_store::Store;
use sunaba_types::{Egress, SandboxId};
use tokio::time::{Instant, timeout};

use super::book::Verdict;
use super::request::Target;
use crate::Caller;
use crate::standing::{self, NoStanding};

/// How long an answer is remembered: a sandbox that ended is shut in after this.
const REMEMBER: Duration = Duration::from_secs(2);
/// How long the store may take.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// Answers remembered at once; past this the old ones go.
const REMEMBERED_MAX: usize = 4096;

/// Why a sandbox does not get out at all.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Lost {
    #[error("{0}")]
    Final(String),
    #[error("the store is not available; try again")]
    ForNow,
}

impl Lost {
    pub(super) const fn is_final(&self) -> bool {
        matches!(self, Self::Final(_))
    }
}

/// A sandbox's policy.
#[derive(Debug)]
pub(super) struct Terms {
    policy: Result<Policy, InvalidEgress>,
}

impl Terms {
    fn of(egress: &Egress) -> Arc<Self> {
        Arc::new(Self { policy: Policy::new(egress) })
    }

    /// Judges a host by its name. A policy that cannot be read opens nothing.
    pub(super) fn decide(&self, target: &Target) -> Verdict {
        match (&self.policy, &target.host) {
            (Err(invalid), _) => Verdict::refused(format!("the policy cannot be read: {invalid}")),
            (_, Err(bad)) => Verdict::refused(format!("not a host: {bad}")),
            (Ok(policy), Ok(host)) => {
                let decision = policy.decide(host, target.port);
                Verdict { allowed: decision.allowed, rule: decision.rule }
            }
        }
    }
}

/// What was answered, and when it was asked.
type Remembered = HashMap<SandboxId, (Instant, Result<Arc<Terms>, Lost>)>;

/// Looks terms up.
#[derive(Debug)]
pub(super) struct TermsCache {
    store: Arc<dyn Store>,
    remembered: Mutex<Remembered>,
}

impl TermsCache {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, remembered: Mutex::default() }
    }

    pub(super) fn forget(&self, id: &SandboxId) {
        self.remembered().remove(id);
    }

    /// The sandbox's terms as they are, or were a moment ago.
    pub(super) async fn of(&self, id: &SandboxId) -> Result<Arc<Terms>, Lost> {
        if let Some((at, answer)) = self.remembered().get(id)
            && at.elapsed() < REMEMBER
        {
            return answer.clone();
        }
        // Taken before asking: an answer is as old as its question.
        let asked = Instant::now();
        let answer = timeout(STORE_TIMEOUT, self.ask(id)).await.unwrap_or(Err(Lost::ForNow));
        if !matches!(answer, Err(Lost::ForNow)) {
            let mut remembered = self.remembered();
            if remembered.len() >= REMEMBERED_MAX {
                remembered.retain(|_, (at, _)| at.elapsed() < REMEMBER);
            }
            if remembered.len() < REMEMBERED_MAX {
                remembered.insert(id.clone(), (asked, answer.clone()));
            }
        }
        answer
    }

    async fn ask(&self, id: &SandboxId) -> Result<Arc<Terms>, Lost> {
        let found = self.store.find_sandbox(id).await.map_err(|_| Lost::ForNow)?;
        let sandbox = found.ok_or_else(|| Lost::Final(NoStanding::Unknown.to_string()))?;
        let (project_id, attempt) = (sandbox.project_id, sandbox.attempt);
        let caller = Caller { sandbox_id: sandbox.id, project_id, attempt };
        match standing::check(&*self.store, &caller).await {
            Ok(sandbox) => Ok(Terms::of(&sandbox.terms.egress.unwrap_or_default())),
            Err(NoStanding::Store(_)) => Err(Lost::ForNow),
            Err(NoStanding::Ended(state)) => Err(Lost::Final(format!("this sandbox is {state}"))),
            Err(lost @ (NoStanding::Unknown | NoStanding::Superseded)) => Err(Lost::Final(lost.to_string())),
        }
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
