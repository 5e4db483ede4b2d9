//! Leftovers: things at the provider whose row is over or was never written.

use crate::Parts;

/// Deletes every sandbox at the provider that no living row speaks of.
pub(crate) async fn remove_leftovers(parts: &Parts) {
    let ids = match parts.provider.list().await {
        Ok(ids) => ids,
        Err(error) => {
            tracing::warn!(%error, "cannot list the provider's sandboxes");
            return;
        }
    };
    for id in ids {
        let over = match parts.store.find_sandbox(&id).await {
            Ok(row) => row.is_none_or(|sandbox| sandbox.state.is_terminal()),
            Err(error) => {
                tracing::warn!(%error, "cannot read a sandbox's row; leaving it alone");
                continue;
            }
        };
        if !over {
            continue;
        }
        match parts.provider.delete(&id).await {
            Ok(()) => tracing::info!(sandbox = %id, "removed what was left of a sandbox"),
            Err(error) => tracing::warn!(sandbox = %id, %error, "cannot remove what is left of a sandbox"),
        }
    }
}
