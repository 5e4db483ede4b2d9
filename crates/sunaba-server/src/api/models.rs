//! Which models may be named: any word, and `script:` with a script that is there.

use sunaba_types::BlobHash;

use super::blobs;
use crate::auth::Identity;
use crate::{ApiError, AppState};

/// Checks a model that the caller itself names in `field`: its script must be one that it may read.
pub(crate) async fn check(
    state: &AppState,
    identity: &Identity,
    model: &str,
    field: &str,
) -> Result<(), ApiError> {
    if let Some(hash) = model.strip_prefix("script:").and_then(BlobHash::parse)
        && !blobs::fetch::may_read(state, identity, &hash).await?
    {
        return Err(no_such_script(field));
    }
    check_there(state, model, field).await
}

/// A script must be there before anything is started for it.
pub(crate) async fn check_there(state: &AppState, model: &str, field: &str) -> Result<(), ApiError> {
    let Some(script) = model.strip_prefix("script:").filter(|name| *name != "default") else { return Ok(()) };
    let Some(hash) = BlobHash::parse(script) else {
        return Err(ApiError::field(field, "must be script:default or script:<hash of a stored blob>"));
    };
    if state.store().blob_owners(&hash).await?.is_empty() {
        return Err(no_such_script(field));
    }
    Ok(())
}

fn no_such_script(field: &str) -> ApiError {
    ApiError::field(field, "no blob with this hash was stored")
}
