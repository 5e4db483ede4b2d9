//! Which refs a sandbox may write.

use sunaba_git::RefUpdate;
use sunaba_types::Sandbox;

/// Checks every ref of a push; the error is for the agent to read and act on: what it tried, what it may do, how.
pub(super) fn check(sandbox: &Sandbox, updates: &[RefUpdate]) -> Result<(), String> {
    let steps = format!("refs/sunaba/{}", sandbox.id);
    let branch = sandbox.branch_name.as_ref().map(|name| format!("refs/heads/{name}"));
    for update in updates {
        let tried = &update.name;
        if Some(tried) != branch.as_ref() && *tried != steps {
            return Err(match &branch {
                Some(own) => format!(
                    "this sandbox may not write {tried}, only its own branch {own}; push there: git push origin \
                     HEAD:{own}"
                ),
                None => format!(
                    "this sandbox may not write {tried}; it has no branch, only {steps}; push there: git push \
                     origin HEAD:{steps}"
                ),
            });
        }
        if update.is_deletion() {
            return Err(format!(
                "this sandbox may not delete {tried}; to undo commits, revert them and push: git push origin \
                 HEAD:{tried}"
            ));
        }
    }
    Ok(())
}
