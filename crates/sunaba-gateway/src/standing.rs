//! Whether a sandbox still has its say: it exists, lives, and no later attempt took its place.

use sunaba_store::Store;
use sunaba_types::Sandbox;

use crate::Caller;

/// Why a sandbox has no say any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoStanding {
    #[error("there is no such sandbox; stop working")]
    Unknown,
    #[error("this sandbox is {0}; it can neither push nor call a model any more; stop working")]
    Ended(&'static str),
    #[error("attempt_superseded: a later attempt has taken this one's place; stop working")]
    Superseded,
    #[error("the store is not available; try again later")]
    Store(#[source] sunaba_store::Error),
}

/// Gives the sandbox's row if the caller may act for it now.
pub(crate) async fn check(store: &dyn Store, caller: &Caller) -> Result<Sandbox, NoStanding> {
    let found = store.find_sandbox(&caller.sandbox_id).await.map_err(NoStanding::Store)?;
    let sandbox = found.ok_or(NoStanding::Unknown)?;
    if sandbox.attempt != caller.attempt {
        return Err(NoStanding::Superseded);
    }
    if let Some(task_id) = &sandbox.task_id {
        let task = store.find_task(task_id).await.map_err(NoStanding::Store)?;
        if task.is_none_or(|task| task.attempt != caller.attempt) {
            return Err(NoStanding::Superseded);
        }
    }
    if sandbox.state.is_terminal() {
        return Err(NoStanding::Ended(sandbox.state.as_str()));
    }
    Ok(sandbox)
}
