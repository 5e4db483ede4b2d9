//! What a sandbox works on, and the ground it starts from.

use sunaba_git::{Credential, Mirror};
use sunaba_store::SandboxChange;
use sunaba_types::{Project, Sandbox, Task, Ticket};

use crate::patience::patiently;
use crate::{Error, Parts};

/// The secrets that open a private repository; the first that is set.
const GIT_TOKENS: [&str; 2] = ["GIT_TOKEN", "GITHUB_TOKEN"];

/// What a sandbox works on.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) project: Project,
    pub(crate) ticket: Ticket,
    pub(crate) task: Task,
}

/// Where its work starts.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) mirror: Mirror,
    pub(crate) branch: String,
    pub(crate) commit: String,
    /// Whether the source's own branch has the commit: then no agent wrote any of it.
    pub(crate) is_of_source: bool,
}

/// Reads the rows.
pub(crate) async fn find(parts: &Parts, sandbox: &Sandbox) -> Result<Work, Error> {
    let missing = |what: &str| Error::Missing(format!("the sandbox has no {what}"));
    let task_id = sandbox.task_id.as_ref().ok_or_else(|| missing("task"))?;
    let task = patiently(|| parts.store.find_task(task_id)).await?.ok_or_else(|| missing("task"))?;
    let ticket =
        patiently(|| parts.store.find_ticket(&task.ticket_id)).await?.ok_or_else(|| missing("ticket"))?;
    let project =
        patiently(|| parts.store.find_project(&task.project_id)).await?.ok_or_else(|| missing("project"))?;
    Ok(Work { project, ticket, task })
}

/// Refreshes the mirror, makes or finds the branch and records where it starts.
pub(crate) async fn lay_base(parts: &Parts, sandbox: &Sandbox, work: &Work) -> Result<Base, Error> {
    let project = &work.project;
    let source = project
        .repo_path
        .as_deref()
        .or(project.repo_url.as_deref())
        .ok_or_else(|| Error::Missing("the project has no repository".to_owned()))?;
    let credential = credential(parts, project).await?;
    let guard = parts.git_locks.lock_within(project.id.as_str(), parts.settings.git_patience).await?;
    let mirror = Mirror::ensure(parts.mirror_path(&project.id), source).await?.with_credential(credential);
    mirror.fetch().await?;
    let (branch, commit) = find_or_make_branch(&mirror, work).await?;
    let is_of_source = mirror.source_has(&project.default_branch, &commit).await?;
    drop(guard);
    let change = SandboxChange {
        branch_name: Some(branch.clone()),
        base_commit: Some(commit.clone()),
        ..SandboxChange::default()
    };
    patiently(|| parts.store.change_sandbox(&sandbox.id, change.clone())).await?;
    Ok(Base { mirror, branch, commit, is_of_source })
}

/// The token of a private repository elsewhere, if the project has one.
async fn credential(parts: &Parts, project: &Project) -> Result<Option<Credential>, Error> {
    let (Some(secrets), None) = (&parts.secrets, &project.repo_path) else { return Ok(None) };
    for name in GIT_TOKENS {
        if let Some(token) = secrets.find(&project.id, name).await.map_err(Error::Secrets)? {
            return Ok(Some(Credential::token(token)));
        }
    }
    Ok(None)
}

/// The branch's name and the commit it is at.
async fn find_or_make_branch(mirror: &Mirror, work: &Work) -> Result<(String, String), Error> {
    if let Some(name) = &work.ticket.branch_name
        && let Some(commit) = mirror.branch_commit(name).await?
    {
        return Ok((name.clone(), commit));
    }
    let base = mirror.resolve(&work.project.default_branch).await?;
    let name = mirror
        .unique_branch_name(
            work.ticket.ticket_type.branch_prefix(),
            work.ticket.id.as_str(),
            &work.ticket.title,
        )
        .await?;
    mirror.create_branch(&name, &base).await?;
    Ok((name, base))
}
