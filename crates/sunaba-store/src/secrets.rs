//! Secrets of projects, sealed before they get here: no backend ever sees one.

use async_trait::async_trait;
use sunaba_types::{ProjectId, Timestamp};

use crate::Result;

/// A secret's name and age; its value is never listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretName {
    /// Its name, such as `ANTHROPIC_API_KEY`.
    pub name: String,
    /// When it was last set.
    pub updated_at: Timestamp,
}

/// Sealed secrets.
#[async_trait]
pub trait SecretStore {
    /// Sets a secret. [`crate::Error::NotFound`] without the project, [`crate::Error::Full`]
    /// (`too_many_secrets`) above [`SECRETS_MAX`].
    async fn put_secret(&self, project_id: &ProjectId, name: &str, sealed: &[u8]) -> Result<SecretName>;
    /// Forgets a secret; `false` if there was none.
    async fn delete_secret(&self, project_id: &ProjectId, name: &str) -> Result<bool>;
    /// The names, in order.
    async fn list_secrets(&self, project_id: &ProjectId) -> Result<Vec<SecretName>>;
    /// A sealed value.
    async fn find_secret(&self, project_id: &ProjectId, name: &str) -> Result<Option<Vec<u8>>>;
}

/// Most secrets of one project.
pub const SECRETS_MAX: i64 = 100;
