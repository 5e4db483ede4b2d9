//! Looks tokens up, and remembers the answer for a few seconds.
//!
//! A token revoked through this process is forgotten at once; one revoked
//! elsewhere opens nothing after [`REMEMBER_FOR`]. A token that opens nothing
//! is not remembered at all, so a fresh one works from its first request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sunaba_store::Store;
use sunaba_types::chain::Hash;
use sunaba_types::{Clock, TokenKind, TokenRecord};

use super::identity::{Grant, Identity, Role, SandboxGrant};
use super::mint::hash_of;
use crate::ApiError;

const REMEMBER_FOR: Duration = Duration::from_secs(3);
const REMEMBER_MOST: usize = 4096;

#[derive(Debug, Clone)]
struct Known {
    identity: Identity,
    record: Arc<TokenRecord>,
    until: Instant,
}

/// What tokens were found to be.
#[derive(Debug)]
pub(crate) struct TokenCache {
    known: Mutex<HashMap<Hash, Known>>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl TokenCache {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { known: Mutex::default(), store, clock }
    }

    /// Who presents this token; 401 if it opens nothing.
    pub(crate) async fn identify(&self, secret: &str) -> Result<Identity, ApiError> {
        if !secret.starts_with("sun_") || secret.len() > 200 {
            return Err(ApiError::unauthorized("this token is not known here"));
        }
        let hash = hash_of(secret);
        if let Some(known) = self.remembered(&hash) {
            self.still_valid(&known.record)?;
            return Ok(known.identity);
        }
        let record = self
            .store
            .find_token(&hash)
            .await?
            .ok_or_else(|| ApiError::unauthorized("this token is not known here"))?;
        self.still_valid(&record)?;
        let identity = self.identity_of(&hash, &record).await?;
        self.remember(
            hash,
            Known {
                identity: identity.clone(),
                record: Arc::new(record),
                until: Instant::now() + REMEMBER_FOR,
            },
        );
        Ok(identity)
    }

    /// Forgets everything, after a revocation.
    pub(crate) fn forget_all(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn remembered(&self, hash: &Hash) -> Option<Known> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(hash).filter(|entry| entry.until > Instant::now()).cloned()
    }

    fn remember(&self, hash: Hash, entry: Known) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBER_MOST {
            let now = Instant::now();
            known.retain(|_, entry| entry.until > now);
            if known.len() >= REMEMBER_MOST {
                known.clear();
            }
        }
        known.insert(hash, entry);
    }

    fn still_valid(&self, record: &TokenRecord) -> Result<(), ApiError> {
        if record.revoked_at.is_some() {
            return Err(ApiError::unauthorized("this token was revoked"));
        }
        if record.expires_at.is_some_and(|at| at <= self.clock.now()) {
            return Err(ApiError::unauthorized("this token has expired"));
        }
        Ok(())
    }

    async fn identity_of(&self, hash: &Hash, record: &TokenRecord) -> Result<Identity, ApiError> {
        let role = match record.kind {
            TokenKind::Admin => Role::Admin,
            TokenKind::Personal => Role::Personal(Arc::new(Grant {
                read: record.scopes.iter().any(|scope| scope == "read"),
                write: record.scopes.iter().any(|scope| scope == "write"),
                projects: record.projects.clone(),
            })),
            TokenKind::Sandbox => Role::Sandbox(Arc::new(self.sandbox_grant(record).await?)),
        };
        let (first, _) = hash.split_first_chunk::<8>().expect("a hash has 32 bytes");
        Ok(Identity { role, name: Arc::from(record.name.as_str()), rate_key: u64::from_be_bytes(*first) })
    }

    async fn sandbox_grant(&self, record: &TokenRecord) -> Result<SandboxGrant, ApiError> {
        let broken = || ApiError::unauthorized("this token belongs to no sandbox");
        let sandbox_id = record.sandbox_id.clone().ok_or_else(broken)?;
        let sandbox = self.store.find_sandbox(&sandbox_id).await?.ok_or_else(broken)?;
        let attempt = record.attempt.unwrap_or(sandbox.attempt);
        Ok(SandboxGrant { sandbox_id, project_id: sandbox.project_id, attempt })
    }
}
