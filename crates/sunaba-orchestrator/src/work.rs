//! What a sandbox works on, and the ground it starts from.

use std::time::Duration;

use secrecy::ExposeSecret as _;
use sunaba_git::{Credential, FetchProblem, Mirror, ObjectFormat};
use sunaba_nodes::Where;
use sunaba_nodes::wire::{Ground, Left, PREFIX};
use sunaba_types::{NodeId, Project, ProjectId, Sandbox, Task, Ticket};
use tokio::time::Instant;

use crate::patience::patiently;
use crate::{Error, Parts};

/// How long laying the ground may take at the home: waiting for others there, and git.
const GROUND_WITHIN: Duration = Duration::from_secs(30 * 60);
/// How often the home is asked where the work starts, when that is rewritten before it can be fetched.
const GROUND_TRIES: usize = 4;

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
    /// The mirror at its home; elsewhere a replica of it.
    pub(crate) mirror: Mirror,
    pub(crate) branch: String,
    pub(crate) commit: String,
    /// Whether the source's own branch has the commit: then no agent wrote any of it.
    pub(crate) is_of_source: bool,
    /// What is there of the files of the attempt before, if that ended in the middle of its work.
    pub(crate) left: Option<Left>,
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

/// Has the branch made or found at the project's home, and records where the work starts.
pub(crate) async fn lay_base(parts: &Parts, sandbox: &Sandbox, work: &Work) -> Result<Base, Error> {
    let patience = parts.settings.git_patience;
    let home = parts.nodes.patiently(patience, || parts.nodes.home_of(&work.project.id)).await?;
    let (ground, mirror) = match home {
        Where::Here => {
            let ground = parts.home.lay_ground(&sandbox.id).await?;
            (ground, Mirror::open(parts.home.mirror_path(&work.project.id))?)
        }
        Where::There(node) => lay_elsewhere(parts, sandbox, &work.project, &node).await?,
    };
    let Ground { branch, commit, is_of_source, left } = ground;
    Ok(Base { mirror, branch, commit, is_of_source, left })
}

/// The ground as the home lays it, and a replica that has it. A branch whose history was rewritten in between may not
/// have that commit any more, and then nothing else is taken for it: the home is asked again.
async fn lay_elsewhere(
    parts: &Parts,
    sandbox: &Sandbox,
    project: &Project,
    home: &NodeId,
) -> Result<(Ground, Mirror), Error> {
    let path = format!("/sandboxes/{}/ground", sandbox.id);
    let mut last = None;
    for _ in 0..GROUND_TRIES {
        let ask = || parts.nodes.post(home, &path, &(), GROUND_WITHIN);
        let ground: Ground = parts.nodes.patiently(parts.settings.git_patience, ask).await?;
        let mirror = replica(parts, project, home, ObjectFormat::of_id(&ground.commit)).await?;
        match mirror.resolve(&ground.commit).await {
            Ok(_) => return Ok((ground, mirror)),
            Err(sunaba_git::Error::UnknownRef(_)) => {
                tracing::warn!(sandbox = %sandbox.id, branch = ground.branch, "the branch was rewritten meanwhile");
                last = Some(ground);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let at = last.map(|ground| format!("{} at {}", ground.branch, ground.commit)).unwrap_or_default();
    Err(Error::Missing(format!(
        "the branch {at} is not to be had from the node {home}: its history was rewritten again and again while it \
         was fetched; try again when it rests"
    )))
}

/// Waits until a project's home answers. A home that is away holds up its own projects and no others: nothing
/// that others need is held meanwhile.
pub(crate) async fn wait_for_home(parts: &Parts, project: &ProjectId) -> Result<(), Error> {
    let patience = parts.settings.git_patience;
    let home = parts.nodes.patiently(patience, || parts.nodes.home_of(project)).await?;
    if let Where::There(node) = home {
        parts.nodes.patiently(patience, || parts.nodes.reach(&node)).await?;
    }
    Ok(())
}

/// This node's own copy of a mirror that another node has, as it is now. Sandboxes borrow its objects. A home that
/// goes away in between is waited for.
async fn replica(
    parts: &Parts,
    project: &Project,
    home: &NodeId,
    format: ObjectFormat,
) -> Result<Mirror, Error> {
    let until = Instant::now() + parts.settings.git_patience;
    let mut pause = Duration::from_millis(50);
    loop {
        match fetch_replica(parts, project, home, format).await {
            // Git also says that it was not let in when the node went away between the question for a token and
            // the answer to it; whether it really was not is asked below, with the same token.
            Err(Error::Git(sunaba_git::Error::CannotFetch { problem, .. }))
                if (problem.may_pass() || problem == FetchProblem::NotAllowed) && Instant::now() < until =>
            {
                // One that answers and breaks off again and again is not asked all the time.
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(5));
                parts.nodes.patiently(until - Instant::now(), || parts.nodes.reach(home)).await?;
            }
            fetched => return fetched,
        }
    }
}

async fn fetch_replica(
    parts: &Parts,
    project: &Project,
    home: &NodeId,
    format: ObjectFormat,
) -> Result<Mirror, Error> {
    let patience = parts.settings.git_patience;
    let address = parts.nodes.patiently(patience, || parts.nodes.address_of(home)).await?;
    let source = format!("{address}{PREFIX}/nodes/{home}/git/{}", project.id);
    let token = parts.nodes.token().expose_secret().into();
    let _guard = parts.home.lock(&project.id).await?;
    let mirror = Mirror::ensure_replica(parts.home.mirror_path(&project.id), &source, format).await?;
    let mirror = mirror.with_credential(Some(Credential::of_node(token)));
    mirror.fetch().await?;
    Ok(mirror)
}

#[cfg(test)]
mod tests;
