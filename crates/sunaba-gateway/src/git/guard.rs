//! Which refs a sandbox may write.

use sunaba_git::RefUpdate;
use sunaba_types::Sandbox;

/// Checks every ref of a push; the error is for the agent to read and act on.
pub(super) fn check(sandbox: &Sandbox, updates: &[RefUpdate]) -> Result<(), String> {
    let steps = format!("refs/sunaba/{}", sandbox.id);
    let branch = sandbox.branch_name.as_ref().map(|name| format!("refs/heads/{name}"));
    for update in updates {
        if Some(&update.name) != branch.as_ref() && update.name != steps {
            return Err(match &sandbox.branch_name {
                Some(name) => format!(
                    "this sandbox may only write its own branch; push there: git push origin HEAD:{name}"
                ),
                None => format!("this sandbox has no branch and may only write {steps}"),
            });
        }
        if update.is_deletion() {
            return Err("a sandbox may not delete its branch; push commits to it instead".to_owned());
        }
    }
    Ok(())
}
