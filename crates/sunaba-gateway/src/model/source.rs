//! Who answers a sandbox: its script, or a real model with a key.

use std::io;

use secrecy::SecretString;
use sunaba_types::{BlobHash, Sandbox};

use super::Refusal;
use crate::dialect::{Dialect, Vendor};
use crate::script::{DEFAULT_SCRIPT, Script};
use crate::standing;
use crate::{Caller, GatewayState};

/// Who answers a sandbox's calls.
pub(super) enum Source {
    Script(Script),
    /// A real model, with this key.
    Upstream(SecretString),
}

/// Checks that a sandbox has a say, and finds who answers it.
pub(super) async fn source_of(
    state: &GatewayState,
    caller: &Caller,
    dialect: &dyn Dialect,
) -> Result<(Sandbox, Source), Refusal> {
    let sandbox = standing::check(&*state.config.store, caller).await?;
    let source = source_for(state, &sandbox, dialect).await?;
    Ok((sandbox, source))
}

/// Finds who answers a sandbox.
pub(super) async fn source_for(
    state: &GatewayState,
    sandbox: &Sandbox,
    dialect: &dyn Dialect,
) -> Result<Source, Refusal> {
    let Some(name) = sandbox.model.strip_prefix("script:") else {
        let key = find_key(state, sandbox, dialect.vendor()).await?;
        return key.map(Source::Upstream).ok_or_else(|| {
            let name = dialect.vendor().key_name();
            Refusal::invalid(format!(
                "no key for the model {} is configured; set {name} for the server or as the project's secret, \
                 or run with --model script:FILE",
                sandbox.model
            ))
        });
    };
    let bytes = if name == "default" {
        DEFAULT_SCRIPT.as_bytes().to_vec()
    } else {
        let hash = BlobHash::parse(name)
            .ok_or_else(|| Refusal::invalid(format!("script:{name} names no stored script")))?;
        let loaded = state.config.scripts.load(&hash).await;
        loaded.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Refusal::invalid(format!("the script {hash} cannot be read: no node has it"))
            }
            _ => {
                tracing::warn!(sandbox_id = %sandbox.id, %hash, %error, "a script cannot be read");
                Refusal::unavailable()
            }
        })?
    };
    let script = Script::parse(&bytes);
    Ok(Source::Script(script.map_err(|error| Refusal::invalid(format!("the script is wrong: {error}")))?))
}

/// The project's own key goes before the server's.
async fn find_key(
    state: &GatewayState,
    sandbox: &Sandbox,
    vendor: Vendor,
) -> Result<Option<SecretString>, Refusal> {
    if let (Some(secrets), Some(project)) = (&state.config.secrets, &sandbox.project_id) {
        let own = secrets.find(project, vendor.key_name()).await.map_err(|error| {
            tracing::warn!(project_id = %project, %error, "a project's key cannot be read");
            Refusal::unavailable()
        })?;
        if own.is_some() {
            return Ok(own);
        }
    }
    Ok(state.config.upstream(vendor).api_key.clone())
}
