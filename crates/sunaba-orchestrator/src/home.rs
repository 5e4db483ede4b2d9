//! What a node does for the projects whose mirrors it has, whichever node's sandboxes need it.
//!
//! Everything that changes a mirror happens at its home, under the project's lock: branches are made here
//! and results are published from here. Other nodes ask for it over the network and keep replicas to read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sunaba_git::{Credential, LeftBy, Mirror, ProjectLocks, Unfinished, publish_branch};
use sunaba_nodes::wire::{Ground, Left, Published};
use sunaba_secrets::Secrets;
use sunaba_store::{SandboxChange, Store};
use sunaba_types::{FilesFrom, Outcome, Project, ProjectId, Sandbox, SandboxId, SandboxState, Ticket};

use crate::Error;
use crate::patience::patiently;

/// The secrets that open a private repository; the first that is set.
const GIT_TOKENS: [&str; 2] = ["GIT_TOKEN", "GITHUB_TOKEN"];

/// The mirrors of a node and what is done with them.
#[derive(Debug, Clone)]
pub struct Home {
    /// The rows.
    pub store: Arc<dyn Store>,
    /// The folder of git mirrors.
    pub git_root: PathBuf,
    /// The git locks, shared with whatever else writes to mirrors.
    pub git_locks: Arc<ProjectLocks>,
    /// Where tokens of private repositories are found; none means that there are none.
    pub secrets: Option<Secrets>,
    /// How long it is waited for others that write to a project's mirror.
    pub git_patience: Duration,
}

impl Home {
    /// Where a project's mirror (or replica) is.
    pub(crate) fn mirror_path(&self, project: &ProjectId) -> PathBuf {
        self.git_root.join(format!("{project}.git"))
    }

    /// Waits for the others that write to a project's mirror.
    pub(crate) async fn lock(&self, project: &ProjectId) -> Result<impl Sized + Send + use<>, Error> {
        Ok(self.git_locks.lock_within(project.as_str(), self.git_patience).await?)
    }

    /// Refreshes the mirror, makes or finds the branch of a sandbox's ticket and records where its work starts:
    /// here, under the lock, so that whoever asks again gets the same answer.
    pub async fn lay_ground(&self, sandbox: &SandboxId) -> Result<Ground, Error> {
        let asked = self.find_sandbox(sandbox).await?;
        let task = asked.task_id.clone().ok_or_else(|| missing("task"))?;
        let past = match &asked.terms.resume {
            Some(resume) => self.find_sandbox(&resume.from).await?.branch_name,
            None => None,
        };
        let task = patiently(|| self.store.find_task(&task)).await?.ok_or_else(|| missing("task"))?;
        let ticket = &task.ticket_id;
        let ticket = patiently(|| self.store.find_ticket(ticket)).await?.ok_or_else(|| missing("ticket"))?;
        let project = self.find_project(&ticket.project_id).await?;
        let source = project
            .repo_path
            .as_deref()
            .or(project.repo_url.as_deref())
            .ok_or_else(|| Error::Missing("the project has no repository".to_owned()))?;
        let credential = self.credential(&project).await?;
        let _guard = self.lock(&project.id).await?;
        let mirror = Mirror::ensure(self.mirror_path(&project.id), source).await?;
        let mirror = mirror.with_credential(credential);
        mirror.fetch().await?;
        let past = past.as_deref();
        let left = self.take_over(&mirror, &ticket, &asked).await?;
        let (branch, commit) = find_or_make_branch(&mirror, &project, &ticket, &asked, past).await?;
        let is_of_source = mirror.source_has(&project.default_branch, &commit).await?;
        let change = SandboxChange {
            branch_name: Some(branch.clone()),
            base_commit: Some(commit.clone()),
            ..SandboxChange::default()
        };
        patiently(|| self.store.change_sandbox(sandbox, change.clone())).await?;
        Ok(Ground { branch, commit, is_of_source, left })
    }

    /// Puts what the attempt before had changed and not pushed on its branch, as far as its steps arrived here. One that
    /// was completed with a result has pushed its work; what lay around besides is nobody's.
    async fn take_over(
        &self,
        mirror: &Mirror,
        ticket: &Ticket,
        sandbox: &Sandbox,
    ) -> Result<Option<Left>, Error> {
        let (Some(after), Some(branch)) = (&sandbox.terms.after, &ticket.branch_name) else {
            return Ok(None);
        };
        let past = self.find_sandbox(after).await?;
        let is_finished = past.state == SandboxState::Completed && past.terms.suspended.is_none();
        let Some(base) = past.base_commit.as_deref().filter(|_| !is_finished) else { return Ok(None) };
        let left = LeftBy { sandbox: after.as_str(), base, branch };
        let message = format!("Unfinished work of {after}\n");
        let take_over = || mirror.take_over_steps(left, &message, sandbox.created_at.as_second());
        let taken = match take_over().await {
            Err(error) => {
                tracing::warn!(sandbox = %after, %error, "what it had not pushed is looked for once more");
                take_over().await
            }
            taken => taken,
        };
        Ok(Some(match taken {
            Ok(Unfinished::Nothing | Unfinished::Committed(_)) => Left::Whole,
            Ok(Unfinished::Unknown) => Left::Pushed,
            Err(error) => {
                tracing::warn!(sandbox = %after, %error, "what it had not pushed cannot be taken over");
                Left::Pushed
            }
        }))
    }

    /// Finds what a sandbox left in the mirror and writes it to the user's repository.
    pub async fn publish(&self, sandbox: &SandboxId) -> Result<Published, Error> {
        let id = sandbox;
        let project_id = self.find_sandbox(id).await?.project_id.ok_or_else(|| missing("project"))?;
        let project = self.find_project(&project_id).await?;
        // Under the lock that pushes take too: whoever takes this attempt's place waits until it is published.
        let _guard = self.lock(&project_id).await?;
        // Read now: while it was waited for the lock the sandbox may have been cancelled.
        let sandbox = self.find_sandbox(id).await?;
        if sandbox.state.is_terminal() {
            return Err(Error::Missing(format!("the sandbox is {}; nothing was published", sandbox.state)));
        }
        let branch = sandbox.branch_name.as_deref().ok_or_else(|| missing("branch"))?;
        let base = sandbox.base_commit.as_deref().ok_or_else(|| missing("base commit"))?;
        self.refuse_superseded(&sandbox).await?;
        let mirror = Mirror::open(self.mirror_path(&project_id))?;
        let head = mirror.branch_commit(branch).await?.unwrap_or_else(|| base.to_owned());
        // What an earlier attempt pushed and nobody published is this one's to publish.
        let taken_over =
            sandbox.attempt > 1 && mirror.branch_start(branch).await?.is_some_and(|at| at != head);
        if head == base && !taken_over {
            return Ok(Published { outcome: Outcome::NoChanges, head });
        }
        if let Some(path) = &project.repo_path {
            publish_branch(&mirror, path.as_ref(), branch).await.map_err(|error| {
                Error::Missing(format!(
                    "the work is on branch {branch} of the server's mirror {}, but it could not be written to {path}: {error}",
                    mirror.dir().display()
                ))
            })?;
        }
        Ok(Published { outcome: Outcome::Branch, head })
    }

    async fn find_sandbox(&self, id: &SandboxId) -> Result<Sandbox, Error> {
        patiently(|| self.store.find_sandbox(id)).await?.ok_or_else(|| missing("row"))
    }

    async fn find_project(&self, id: &ProjectId) -> Result<Project, Error> {
        patiently(|| self.store.find_project(id)).await?.ok_or_else(|| missing("project"))
    }

    /// A later attempt owns the branch: what an earlier one left must not be published in its name.
    async fn refuse_superseded(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let Some(task_id) = &sandbox.task_id else { return Ok(()) };
        let task = patiently(|| self.store.find_task(task_id)).await?;
        match task {
            Some(task) if task.attempt == sandbox.attempt => Ok(()),
            _ => Err(Error::Missing(
                "attempt_superseded: a later attempt has taken this one's place; nothing was published"
                    .to_owned(),
            )),
        }
    }

    /// The token of a private repository elsewhere, if the project has one.
    async fn credential(&self, project: &Project) -> Result<Option<Credential>, Error> {
        let (Some(secrets), None) = (&self.secrets, &project.repo_path) else { return Ok(None) };
        for name in GIT_TOKENS {
            if let Some(token) = secrets.find(&project.id, name).await.map_err(Error::Secrets)? {
                return Ok(Some(Credential::token(token)));
            }
        }
        Ok(None)
    }
}

fn missing(what: &str) -> Error {
    Error::Missing(format!("the sandbox has no {what}"))
}

/// The branch's name and the commit it is at. A conversation that goes on for another ticket goes on with the files
/// that it is about, which are on the branch `past`.
async fn find_or_make_branch(
    mirror: &Mirror,
    project: &Project,
    ticket: &Ticket,
    sandbox: &Sandbox,
    past: Option<&str>,
) -> Result<(String, String), Error> {
    if let Some(name) = &ticket.branch_name
        && let Some(commit) = mirror.branch_commit(name).await?
    {
        return Ok((name.clone(), commit));
    }
    let of_past = match past {
        Some(branch) => mirror.branch_commit(branch).await?,
        None => None,
    };
    let base = match (&sandbox.terms.files_from, of_past) {
        (Some(files), _) => commit_files(mirror, sandbox, files).await?,
        (None, Some(commit)) => commit,
        (None, None) => mirror.resolve(&project.default_branch).await?,
    };
    let name = mirror
        .unique_branch_name(ticket.ticket_type.branch_prefix(), ticket.id.as_str(), &ticket.title)
        .await?;
    mirror.create_branch(&name, &base).await?;
    Ok((name, base))
}

/// A commit of another sandbox's files; where nothing was changed yet, the one that it started from.
async fn commit_files(mirror: &Mirror, sandbox: &Sandbox, files: &FilesFrom) -> Result<String, Error> {
    if files.tree == files.base_commit {
        return Ok(mirror.resolve(&files.base_commit).await?);
    }
    if !mirror.has_tree(&files.tree).await? {
        let words =
            format!("the files of {} that this starts from ({}) are not here", files.sandbox_id, files.tree);
        return Err(Error::Missing(words));
    }
    let place = files.seq.map(|seq| format!(" at event {seq}")).unwrap_or_default();
    let message = format!("Files of {}{place}\n", files.sandbox_id);
    let at = sandbox.created_at.as_second();
    Ok(mirror.commit_tree(&files.tree, &files.base_commit, &message, at).await?)
}

#[cfg(test)]
mod tests {
    use sunaba_engine::{SandboxTrigger, TaskTrigger};
    use sunaba_store::SandboxChange;

    use crate::made::{parts, sandbox};

    #[tokio::test]
    async fn a_superseded_attempt_publishes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let parts = parts(dir.path()).await;
        let past = sandbox(&parts).await;
        parts.home.refuse_superseded(&past).await.unwrap();
        let ground = SandboxChange {
            branch_name: Some("feature/1-x".into()),
            base_commit: Some("0".repeat(40)),
            ..SandboxChange::default()
        };
        parts.store.change_sandbox(&past.id, ground).await.unwrap();
        let failed = SandboxChange {
            trigger: Some(SandboxTrigger::Fail),
            task_trigger: Some(TaskTrigger::Fail),
            ..SandboxChange::default()
        };
        parts.store.change_sandbox(&past.id, failed).await.unwrap();
        let again = SandboxChange { task_trigger: Some(TaskTrigger::Retry), ..SandboxChange::default() };
        parts.store.change_sandbox(&past.id, again).await.unwrap();
        let next = crate::made::again(&parts, &past).await;
        assert_eq!(next.attempt, past.attempt + 1);
        let refused = parts.home.refuse_superseded(&past).await.unwrap_err().to_string();
        assert!(refused.contains("attempt_superseded"), "{refused}");
        let refused = parts.home.publish(&past.id).await.unwrap_err().to_string();
        assert!(refused.contains("the sandbox is failed; nothing was published"), "{refused}");
    }

    /// The cancel comes while the publishing waits for its turn.
    #[tokio::test]
    async fn what_is_cancelled_meanwhile_is_not_published() {
        let dir = tempfile::tempdir().unwrap();
        let parts = parts(dir.path()).await;
        let sandbox = sandbox(&parts).await;
        let ground = SandboxChange {
            branch_name: Some("feature/1-x".into()),
            base_commit: Some("0".repeat(40)),
            ..SandboxChange::default()
        };
        parts.store.change_sandbox(&sandbox.id, ground).await.unwrap();
        let turn = parts.home.lock(sandbox.project_id.as_ref().unwrap()).await.unwrap();
        let mut publishing = Box::pin(parts.home.publish(&sandbox.id));
        // As far as it comes while another has the turn.
        let held = tokio::time::timeout(std::time::Duration::from_millis(200), &mut publishing).await;
        assert!(held.is_err(), "{held:?}");
        let cancel = SandboxChange {
            trigger: Some(SandboxTrigger::Cancel),
            task_trigger: Some(TaskTrigger::Cancel),
            ..SandboxChange::default()
        };
        parts.store.change_sandbox(&sandbox.id, cancel).await.unwrap();
        drop(turn);
        let refused = publishing.await.unwrap_err().to_string();
        assert!(refused.contains("the sandbox is cancelled; nothing was published"), "{refused}");
    }
}
