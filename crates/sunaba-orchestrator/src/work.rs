//! What a sandbox works on, and the ground it starts from.

use secrecy::ExposeSecret as _;
use sunaba_git::{Credential, Mirror};
use sunaba_nodes::Where;
use sunaba_nodes::wire::{Ground, PREFIX};
use sunaba_store::SandboxChange;
use sunaba_types::{NodeId, Project, Sandbox, Task, Ticket};

use crate::patience::patiently;
use crate::{Error, Parts};

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
            let ground = parts.home.lay_ground(&work.ticket.id).await?;
            (ground, Mirror::open(parts.home.mirror_path(&work.project.id))?)
        }
        Where::There(node) => {
            let path = format!("/tickets/{}/ground", work.ticket.id);
            let ground: Ground =
                parts.nodes.patiently(patience, || parts.nodes.post(&node, &path, &(), patience)).await?;
            (ground, replica(parts, &work.project, &node).await?)
        }
    };
    let Ground { branch, commit, is_of_source } = ground;
    let change = SandboxChange {
        branch_name: Some(branch.clone()),
        base_commit: Some(commit.clone()),
        ..SandboxChange::default()
    };
    patiently(|| parts.store.change_sandbox(&sandbox.id, change.clone())).await?;
    Ok(Base { mirror, branch, commit, is_of_source })
}

/// This node's own copy of a mirror that another node has, as it is now. Sandboxes borrow its objects. A home that
/// goes away in between is waited for.
async fn replica(parts: &Parts, project: &Project, home: &NodeId) -> Result<Mirror, Error> {
    let brought = || async {
        let address = parts.nodes.address_of(home).await?;
        match bring_replica(parts, project, &address).await {
            Err(Error::Git(error)) => {
                Err(sunaba_nodes::Error::Away { node: home.clone(), why: error.to_string() })
            }
            brought => Ok(brought),
        }
    };
    parts.nodes.patiently(parts.settings.git_patience, brought).await?
}

async fn bring_replica(parts: &Parts, project: &Project, address: &str) -> Result<Mirror, Error> {
    let source = format!("{address}{PREFIX}/git/{}", project.id);
    let token = parts.nodes.token().expose_secret().into();
    // Not held while the home is waited for: others need it too.
    let _guard = parts.home.lock(&project.id).await?;
    let mirror = Mirror::ensure(parts.home.mirror_path(&project.id), &source).await?;
    let mirror = mirror.with_credential(Some(Credential::of_node(token)));
    mirror.fetch().await?;
    Ok(mirror)
}
