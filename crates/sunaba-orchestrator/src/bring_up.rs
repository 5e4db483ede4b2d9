//! From a pending row to a running worker.

use sunaba_engine::SandboxTrigger;
use sunaba_git::{Mirror, WorkspaceSpec, prepare_workspace};
use sunaba_sandbox::StartRequest;
use sunaba_store::{NewToken, SandboxChange};
use sunaba_types::shim::{Bind, WORKER_INSIDE};
use sunaba_types::{Project, ProjectId, Sandbox, SandboxState, Task, Ticket, TokenKind};

use crate::environment::{self, GIT_REMOTE_INSIDE, MIRROR_OBJECTS_INSIDE};
use crate::patience::patiently;
use crate::{Error, Parts};

/// What a sandbox works on.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) project: Project,
    pub(crate) ticket: Ticket,
    pub(crate) task: Task,
}

/// Makes the branch, the clone, the token and the door, and starts the worker.
///
/// Every step can be repeated; when one fails the caller deletes what was made. What git fetches has git's
/// own limits and what the store records waits for the store; the rest has the deadline for creating.
pub(crate) async fn bring_up(parts: &Parts, sandbox: &Sandbox) -> Result<(), Error> {
    begin(parts, sandbox).await?;
    let work = find_work(parts, sandbox).await?;
    let branch = refresh_mirror(parts, sandbox, &work).await?;
    let token = mint_token(parts, sandbox).await?;
    let deadline = parts.settings.creating_deadline;
    tokio::time::timeout(deadline, start(parts, sandbox, &work, &branch, &token))
        .await
        .map_err(|_| Error::TooSlow { what: "bringing up the sandbox", seconds: deadline.as_secs() })?
}

async fn begin(parts: &Parts, sandbox: &Sandbox) -> Result<(), Error> {
    if sandbox.state != SandboxState::Pending {
        // The server died half-way through an earlier try: begin with clean ground.
        return Ok(parts.provider.delete(&sandbox.id).await?);
    }
    let change = SandboxChange {
        trigger: Some(SandboxTrigger::Create),
        provider_ref: Some(sandbox.id.to_string()),
        isolation: Some(parts.provider.isolation().await?.level()),
        ..SandboxChange::default()
    };
    patiently(|| parts.store.change_sandbox(&sandbox.id, change.clone())).await?;
    Ok(())
}

/// Clones into the workspace, opens the door and starts the worker behind it.
async fn start(
    parts: &Parts,
    sandbox: &Sandbox,
    work: &Work,
    branch: &str,
    token: &str,
) -> Result<(), Error> {
    let mirror = Mirror::open(parts.mirror_path(&work.project.id))?;
    let prepared = parts.provider.create(&sandbox.id, &sunaba_sandbox::CreateRequest::default()).await?;
    let prepared = prepared.here().ok_or_else(|| Error::Missing("the sandbox is elsewhere".to_owned()))?;
    let remote = remote_url(&work.project.id);
    let spec = WorkspaceSpec {
        branch,
        alternates_inside: MIRROR_OBJECTS_INSIDE,
        remote_url_inside: &remote,
        owner: prepared.owner_uid.map(|uid| (uid, uid)),
        left_out: &[],
    };
    prepare_workspace(&mirror, &prepared.workspace, spec).await?;
    parts.doors.open(&sandbox.id, &prepared.door_dir).await.map_err(Error::Door)?;
    let mut binds = vec![Bind {
        source: mirror.objects_dir().to_string_lossy().into_owned(),
        target: MIRROR_OBJECTS_INSIDE.to_owned(),
        writable: false,
    }];
    binds.extend(toolchain_binds(&work.project));
    let request = StartRequest {
        env: environment::worker_env(&parts.settings, sandbox, work, branch, token),
        binds,
        command: vec![WORKER_INSIDE.to_owned(), "work".to_owned()],
        ..StartRequest::default()
    };
    parts.provider.start(&sandbox.id, request).await?;
    Ok(())
}

async fn find_work(parts: &Parts, sandbox: &Sandbox) -> Result<Work, Error> {
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
async fn refresh_mirror(parts: &Parts, sandbox: &Sandbox, work: &Work) -> Result<String, Error> {
    let source = work
        .project
        .repo_path
        .as_deref()
        .or(work.project.repo_url.as_deref())
        .ok_or_else(|| Error::Missing("the project has no repository".to_owned()))?;
    let guard = parts.git_locks.lock(work.project.id.as_str()).await;
    let mirror = Mirror::ensure(parts.mirror_path(&work.project.id), source).await?;
    mirror.fetch().await?;
    let branch = find_or_make_branch(&mirror, work).await?;
    let base = mirror
        .branch_commit(&branch)
        .await?
        .ok_or_else(|| Error::Missing(format!("the branch {branch} is not in the mirror")))?;
    drop(guard);
    let change = SandboxChange {
        branch_name: Some(branch.clone()),
        base_commit: Some(base),
        ..SandboxChange::default()
    };
    patiently(|| parts.store.change_sandbox(&sandbox.id, change.clone())).await?;
    Ok(branch)
}

async fn find_or_make_branch(mirror: &Mirror, work: &Work) -> Result<String, Error> {
    if let Some(name) = &work.ticket.branch_name
        && mirror.branch_commit(name).await?.is_some()
    {
        return Ok(name.clone());
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
    Ok(name)
}

fn remote_url(project: &ProjectId) -> String {
    format!("{GIT_REMOTE_INSIDE}/{project}")
}

async fn mint_token(parts: &Parts, sandbox: &Sandbox) -> Result<String, Error> {
    let (secret, hash) = (parts.mint_token)();
    let token = NewToken {
        hash,
        name: format!("sandbox {}", sandbox.id),
        kind: TokenKind::Sandbox,
        scopes: Vec::new(),
        projects: sandbox.project_id.clone().into_iter().collect(),
        sandbox_id: Some(sandbox.id.clone()),
        attempt: Some(sandbox.attempt),
        expires_at: None,
    };
    patiently(|| parts.store.create_token(token.clone())).await?;
    Ok(secret)
}

fn toolchain_binds(project: &Project) -> impl Iterator<Item = Bind> + '_ {
    project.settings.toolchains.iter().map(|path| Bind {
        source: path.clone(),
        target: path.clone(),
        writable: false,
    })
}
