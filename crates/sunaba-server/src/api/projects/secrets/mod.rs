//! Secrets of a project: set and deleted by name, never shown again.

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod put;

use serde::Serialize;
use sunaba_secrets::Secrets;
use sunaba_store::SecretName;
use sunaba_types::Timestamp;
use utoipa::ToSchema;

use crate::{ApiError, AppState};

/// A secret's name and age. Its value is never shown.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Secret)]
pub(crate) struct SecretView {
    name: String,
    updated_at: Timestamp,
}

impl From<SecretName> for SecretView {
    fn from(secret: SecretName) -> Self {
        Self { name: secret.name, updated_at: secret.updated_at }
    }
}

/// Where values are sealed.
fn vault(state: &AppState) -> Result<&Secrets, ApiError> {
    state.parts.secrets.as_ref().ok_or_else(|| {
        ApiError::unavailable(
            "secrets_unavailable",
            "this server has no key to seal secrets with; start it with SUNABA_SECRET_KEY or SUNABA_SECRET_KEY_FILE",
        )
    })
}
