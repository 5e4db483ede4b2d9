//! Prepares clones once: runs a project's setup command in a sandbox of its own and lays what it made under
//! every later sandbox that would get the same.
//!
//! The command runs at the same provider, with the same limits and no token: behind its door it can reach what
//! the setup may reach and nothing else. It has a name of its own there (`<sandbox>-setup`), so that after a
//! crash it is never taken for the sandbox itself: it has no row, and what has no row is removed. Its door is
//! opened under the id of the sandbox that needs it, whose row says meanwhile what the setup may reach.
//!
//! A command that fails does not fail the sandbox: an agent can often mend what is missing. The log says so.

mod keep;
mod plan;
mod shelf;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use sunaba_git::{Mirror, TreeFile, WorkspaceSpec, prepare_workspace};
use sunaba_sandbox::{CreateRequest, HostPlaces, Prepared, Provider, StartRequest};
use sunaba_store::SandboxChange;
use sunaba_types::shim::{Bind, Exit, HOME_DIR};
use sunaba_types::{Egress, SandboxId};

use self::plan::{Ground, Plan};
use self::shelf::Facts;
pub(crate) use self::shelf::Laid;
pub use self::shelf::Shelf;
use crate::environment::{self, MIRROR_OBJECTS_INSIDE};
use crate::patience::patiently;
use crate::record::record;
use crate::{Error, Parts};

/// What a setup sandbox is called after.
const SUFFIX: &str = "-setup";
/// How much of a command's output is put into the log.
const TAIL_BYTES: usize = 8 * 1024;
/// How much of it is gone through to find its end.
const OUTPUT_MAX_BYTES: u64 = 64 * 1024 * 1024;
const EVENT: &str = "sandbox.setup";

/// Everything a setup run needs to know.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) provider: &'a Arc<dyn Provider>,
    /// The sandbox that needs it.
    pub(crate) id: &'a SandboxId,
    pub(crate) project: &'a sunaba_types::Project,
    pub(crate) mirror: &'a Mirror,
    pub(crate) branch: &'a str,
    /// The commit that work starts from, what it holds, and whether the source has it too.
    pub(crate) base: &'a str,
    pub(crate) files: &'a [TreeFile],
    pub(crate) base_is_of_source: bool,
    /// The command that is set; none lets it be guessed.
    pub(crate) command: Option<&'a str>,
    pub(crate) request: &'a CreateRequest,
    pub(crate) root_fs: Option<&'a str>,
    pub(crate) toolchains: &'a [String],
    pub(crate) binds: &'a [Bind],
    pub(crate) egress: Egress,
    /// Lets only so many run at once.
    pub(crate) gate: &'a tokio::sync::Semaphore,
}

/// Whether an id at a provider is that of a setup sandbox.
pub(crate) fn is_setup(id: &SandboxId) -> bool {
    id.as_str().ends_with(SUFFIX)
}

/// The setup sandbox of a sandbox.
pub(crate) fn setup_id(id: &SandboxId) -> Result<SandboxId, Error> {
    SandboxId::parse(format!("{id}{SUFFIX}"))
        .map_err(|error| Error::Missing(format!("the sandbox's id cannot name a setup: {error}")))
}

/// What is to be laid under the sandbox: found, or made now. Nothing when there is nothing to set up or the
/// command gave nothing; the log says which.
pub(crate) async fn prepare(wanted: &Wanted<'_>) -> Result<Option<Laid>, Error> {
    let Some(plan) = plan::choose(wanted.command, wanted.files) else { return Ok(None) };
    let ground = Ground {
        files: wanted.files,
        provider: wanted.provider.name(),
        base: wanted.root_fs.or(wanted.request.image.as_deref()),
        toolchains: wanted.toolchains,
        commit: (!wanted.base_is_of_source).then_some(wanted.base),
    };
    let key = plan::key(&plan, &ground);
    let shelf = &wanted.parts.shelf;
    let patience = wanted.parts.settings.setup_deadline * 2;
    let turn = tokio::time::timeout(patience, shelf.turn(&wanted.project.id, &key)).await;
    let Ok(_turn) = turn else {
        say(wanted, &plan, "skipped", json!({ "reason": "another sandbox's setup took too long" })).await;
        return Ok(None);
    };
    if let Some(laid) = take(wanted, &key)? {
        say(wanted, &plan, "reused", json!({ "key": key })).await;
        return Ok(Some(laid));
    }
    if let Some(nothing) = shelf.recall(&key) {
        record(wanted.parts, wanted.id, EVENT, &nothing.payload).await;
        return Ok(None);
    }
    run(wanted, &plan, &key, wanted.files).await
}

fn take(wanted: &Wanted<'_>, key: &str) -> Result<Option<Laid>, Error> {
    let now = wanted.parts.clock.now().into();
    wanted.parts.shelf.take_locked(&wanted.project.id, key, wanted.id, now).map_err(Error::Layers)
}

/// Runs the command and keeps what it made.
async fn run(wanted: &Wanted<'_>, plan: &Plan, key: &str, files: &[TreeFile]) -> Result<Option<Laid>, Error> {
    let _permit = wanted.gate.acquire().await;
    say(wanted, plan, "started", json!({ "key": key })).await;
    let mark = wanted.parts.shelf.running(setup_id(wanted.id)?);
    let started = wanted.parts.clock.now();
    let ended = in_sandbox(wanted, plan, mark.id(), key, files).await;
    let output = tail(&**wanted.provider, mark.id()).await;
    close(wanted, mark.id()).await;
    let seconds = wanted.parts.clock.now().duration_since(started).as_secs();
    let told = json!({ "key": key, "seconds": seconds, "output": output });
    match ended {
        Ok(()) => {
            say(wanted, plan, "done", told).await;
            take(wanted, key)
        }
        Err(Failed { status, exit, reason }) => {
            let mut told = told;
            told["exit"] = json!(exit);
            told["reason"] = json!(reason);
            let payload = payload(plan, status, told);
            wanted.parts.shelf.remember(key, payload.clone());
            tracing::warn!(sandbox = %wanted.id, status, reason, "the setup gave nothing");
            record(wanted.parts, wanted.id, EVENT, &payload).await;
            Ok(None)
        }
    }
}

/// Why a command gave nothing.
struct Failed {
    status: &'static str,
    exit: Option<Exit>,
    reason: String,
}

impl<E: std::fmt::Display> From<E> for Failed {
    fn from(error: E) -> Self {
        Self { status: "failed", exit: None, reason: error.to_string() }
    }
}

async fn in_sandbox(
    wanted: &Wanted<'_>,
    plan: &Plan,
    id: &SandboxId,
    key: &str,
    files: &[TreeFile],
) -> Result<(), Failed> {
    let places = start(wanted, plan, id).await?;
    let Some(places) = places else {
        let reason = "sandboxes on another machine are not set up; the agent does it".to_owned();
        return Err(Failed { status: "skipped", exit: None, reason });
    };
    let deadline = wanted.parts.settings.setup_deadline;
    let Ok(exit) = tokio::time::timeout(deadline, wanted.provider.wait(id)).await else {
        let reason = format!("it took longer than {} s and was ended", deadline.as_secs());
        return Err(Failed { status: "failed", exit: None, reason });
    };
    let exit = exit?;
    if exit.code != Some(0) {
        let missing = plan.guessed && exit.code == Some(plan::PROGRAM_MISSING);
        return Err(match missing {
            true => {
                Failed { status: "skipped", exit: None, reason: "no program for it is in the sandbox".into() }
            }
            false => Failed { status: "failed", reason: crate::ending::how(&exit), exit: Some(exit) },
        });
    }
    // Nothing may change the trees while they are looked through.
    wanted.provider.kill(id).await?;
    publish(wanted, plan, key, files, places).await
}

/// Clones, opens the door and starts the command; nothing when the sandbox is on another machine.
async fn start(wanted: &Wanted<'_>, plan: &Plan, id: &SandboxId) -> Result<Option<HostPlaces>, Error> {
    let (parts, provider) = (wanted.parts, wanted.provider);
    provider.delete(id).await?;
    let Prepared::Here(places) = provider.create(id, wanted.request).await? else { return Ok(None) };
    let spec = WorkspaceSpec {
        branch: wanted.branch,
        commit: wanted.base,
        alternates_inside: MIRROR_OBJECTS_INSIDE,
        // Nothing is pushed from here, and there is no token to do it with.
        remote_url_inside: "http://127.0.0.1:3129/none",
        owner: places.owner_uid.map(|uid| (uid, uid)),
        left_out: &[],
    };
    prepare_workspace(wanted.mirror, &places.workspace, spec).await?;
    let change = SandboxChange { egress: Some(wanted.egress.clone()), ..SandboxChange::default() };
    patiently(|| parts.store.change_sandbox(wanted.id, change.clone())).await?;
    parts.doors.open(wanted.id, &places.door_dir).await.map_err(Error::Door)?;
    let request = StartRequest {
        env: environment::setup_env(wanted.toolchains),
        binds: wanted.binds.to_vec(),
        root_fs: wanted.root_fs.map(str::to_owned),
        command: vec!["/bin/sh".to_owned(), "-c".to_owned(), plan.script.clone()],
        ..StartRequest::default()
    };
    provider.start(id, request).await?;
    Ok(Some(places))
}

async fn publish(
    wanted: &Wanted<'_>,
    plan: &Plan,
    key: &str,
    files: &[TreeFile],
    places: HostPlaces,
) -> Result<(), Failed> {
    let draft = wanted.parts.shelf.begin_locked(&wanted.project.id, key)?;
    let to: PathBuf = draft.dir().to_owned();
    let home = places.workspace.with_file_name(HOME_DIR);
    let (files, max_bytes) = (files.to_vec(), wanted.parts.settings.layers_max_bytes);
    let command = plan.command.clone();
    let work = tokio::task::spawn_blocking(move || {
        let kept = keep::keep(&places.workspace, &home, &files, &to, max_bytes)?;
        shelf::settle(&to, &Facts { command, tops: kept.tops, bytes: kept.bytes })
    });
    work.await??;
    Ok(draft.publish()?)
}

/// Closes the door and removes the setup sandbox; its output stays with the provider.
async fn close(wanted: &Wanted<'_>, id: &SandboxId) {
    wanted.parts.doors.close(wanted.id).await;
    if let Err(error) = wanted.provider.delete(id).await {
        tracing::warn!(sandbox = %id, %error, "cannot delete a setup sandbox; trying again within a minute");
    }
}

/// The end of what the command printed.
async fn tail(provider: &dyn Provider, id: &SandboxId) -> String {
    const PIECE: usize = 256 * 1024;
    let mut kept: Vec<u8> = Vec::new();
    let mut offset = 0;
    while offset < OUTPUT_MAX_BYTES {
        let Ok(piece) = provider.output(id, offset, PIECE).await else { break };
        if piece.is_empty() {
            break;
        }
        offset += piece.len() as u64;
        kept.extend_from_slice(&piece);
        let excess = kept.len().saturating_sub(TAIL_BYTES);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).replace('\0', "")
}

fn payload(plan: &Plan, status: &str, mut more: Value) -> Value {
    more["status"] = json!(status);
    more["command"] = json!(plan.command);
    more["guessed"] = json!(plan.guessed);
    more
}

async fn say(wanted: &Wanted<'_>, plan: &Plan, status: &str, more: Value) {
    record(wanted.parts, wanted.id, EVENT, &payload(plan, status, more)).await;
}
