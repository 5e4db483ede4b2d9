//! Starts a shim and waits until its sandbox runs.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use sunaba_types::SandboxId;
use sunaba_types::shim::{self, Bind, Held, Reply, Request, Spec};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::layout::{GROUPS_FILE, Layout};
use super::owner::Owner;
use super::{LocalProvider, control, shim_lives};
use crate::disk::DISK_DIR;
use crate::{Error, StartRequest};

/// How long a sandbox may take from the request until its first process runs.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(1);
/// How much of the shim's own words an error carries.
const REASON_MAX_BYTES: usize = 2000;

impl LocalProvider {
    pub(super) async fn start_shim(
        &self,
        id: &SandboxId,
        owner: Owner,
        request: StartRequest,
    ) -> Result<Held, Error> {
        let layout = self.layout(id);
        let mut child = None;
        if !shim_lives(&layout)? {
            let groups = self.groups(id).await?;
            layout.write(GROUPS_FILE, &groups).map_err(Error::backend("write the sandbox's groups"))?;
            let spec = self.spec(id, &layout, owner, request)?;
            layout.write(shim::SPEC_FILE, &spec).map_err(Error::backend("write the sandbox's spec"))?;
            let started = spawn(&self.options.worker_program, &layout)
                .map_err(Error::backend(format!("start {}", self.options.worker_program.display())))?;
            child = Some(started);
        }
        let result = await_running(id, &layout, child.as_mut()).await;
        if let Some(mut child) = child {
            self.reapers.spawn(async move { child.wait().await });
        }
        result
    }

    fn spec(
        &self,
        id: &SandboxId,
        layout: &Layout,
        owner: Owner,
        request: StartRequest,
    ) -> Result<Spec, Error> {
        let own = |path: &Path, target: &str, writable| {
            Ok(Bind { source: text(path)?, target: target.to_owned(), writable })
        };
        // As the shim sees it, which has the sandbox's own disk there.
        let disk = layout.path(DISK_DIR);
        let mut binds = vec![
            own(&disk.join(shim::WORKSPACE_DIR), shim::WORKSPACE_INSIDE, true)?,
            own(&disk.join(shim::HOME_DIR), shim::HOME_INSIDE, true)?,
            own(&layout.path(shim::DOOR_DIR), shim::DOOR_DIR_INSIDE, false)?,
        ];
        binds.extend(request.binds);
        let command = if request.command.is_empty() {
            vec![shim::WORKER_INSIDE.to_owned(), "work".to_owned()]
        } else {
            request.command
        };
        Ok(Spec {
            sandbox_id: id.to_string(),
            host_uid: owner.uid,
            binds,
            worker_program: text(&self.options.worker_program)?,
            env: request.env,
            command,
            limits: self.limits(id)?,
            layers: request.layers,
            root_fs: request.root_fs,
            seccomp: self.seccomp,
        })
    }
}

/// Starts the shim with nothing of the server's: no environment, no open files. It leaves the session itself.
fn spawn(program: &Path, layout: &Layout) -> io::Result<Child> {
    let log =
        OpenOptions::new().create(true).append(true).mode(0o600).open(layout.path(shim::SHIM_LOG_FILE))?;
    Command::new(program)
        .arg("shim")
        .arg("--dir")
        .arg(&layout.dir)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(false)
        .spawn()
}

async fn await_running(
    id: &SandboxId,
    layout: &Layout,
    mut child: Option<&mut Child>,
) -> Result<Held, Error> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        // Once the socket is there the shim answers when the sandbox runs or is over.
        match timeout(START_TIMEOUT, control::ask(&layout.dir, &Request::Status)).await {
            Ok(Ok(Reply::Running(held))) => return Ok(held),
            Ok(Ok(Reply::Exited(exit))) => return ended_early(id, layout, exit),
            _ => {}
        }
        if let Some(exit) = layout.read(shim::EXIT_FILE).map_err(Error::backend("read the exit record"))? {
            return ended_early(id, layout, exit);
        }
        let started_one_ended = match child.as_mut() {
            Some(child) => child.try_wait().map_err(Error::backend("look at the shim"))?.is_some(),
            None => true,
        };
        // Ours may have given way to one that another call started at the same time.
        let shim_gone = started_one_ended && !shim_lives(layout)?;
        if shim_gone && layout.read::<shim::Exit>(shim::EXIT_FILE).ok().flatten().is_none() {
            return Err(Error::StartFailed { id: id.clone(), reason: last_words(layout) });
        }
        if Instant::now() >= deadline {
            return Err(Error::Timeout {
                id: id.clone(),
                what: "its start",
                seconds: START_TIMEOUT.as_secs(),
            });
        }
        sleep(START_POLL).await;
    }
}

/// A command that was over before anybody asked ran all the same; one that never began is an error.
fn ended_early(id: &SandboxId, layout: &Layout, exit: shim::Exit) -> Result<Held, Error> {
    let held = layout.read(shim::HELD_FILE).map_err(Error::backend("read the shim's record"))?;
    match (exit.error, held) {
        (None, Some(held)) => Ok(held),
        (Some(reason), _) => Err(Error::StartFailed { id: id.clone(), reason }),
        (None, None) => Err(Error::StartFailed { id: id.clone(), reason: last_words(layout) }),
    }
}

fn last_words(layout: &Layout) -> String {
    let words = std::fs::read(layout.path(shim::SHIM_LOG_FILE)).unwrap_or_default();
    let tail = &words[words.len().saturating_sub(REASON_MAX_BYTES)..];
    let tail = String::from_utf8_lossy(tail);
    if tail.trim().is_empty() { "the shim ended without a word".to_owned() } else { tail.trim().to_owned() }
}

fn text(path: &Path) -> Result<String, Error> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::Unsupported(format!(
            "the path {} is not valid UTF-8; choose another directory",
            path.display()
        ))
    })
}
