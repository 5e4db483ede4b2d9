//! Ends sandboxes for sure, and removes everything of them.

use nix::sys::signal::Signal;
use sunaba_types::SandboxId;
use sunaba_types::shim::{Held, Reply, Request};
use tokio::time::{Instant, sleep, timeout};

use super::layout::{GROUPS_FILE, Layout};
use super::owner::Owner;
use super::{KILL_TIMEOUT, LocalProvider, POLL, blocking, control, removal, shim_lives};
use crate::cgroup::{self, Groups};
use crate::{Error, process};

impl LocalProvider {
    /// Ends every process, with the shim's help or without.
    pub(super) async fn end(&self, id: &SandboxId) -> Result<(), Error> {
        let owner = self.owner(id)?;
        let layout = self.layout(id);
        let asked = timeout(KILL_TIMEOUT, control::ask(&layout.dir, &Request::Kill)).await;
        if !matches!(asked, Ok(Ok(Reply::Exited(_)))) {
            // A shim that does not answer is ended too; bubblewrap dies with it.
            if let Some(held) = self.held_record(id)? {
                process::signal_if_alive(held.shim_pid, held.shim_start_time, Signal::SIGKILL);
            }
        }
        self.finish_off(id, owner).await
    }

    /// Ends what is left without the shim's help and answers once nothing is.
    async fn finish_off(&self, id: &SandboxId, owner: Owner) -> Result<(), Error> {
        let held = self.held_record(id)?;
        let groups = self.groups(id).await?;
        let deadline = Instant::now() + KILL_TIMEOUT;
        loop {
            let left = left(held.as_ref(), owner, &groups);
            if left.is_empty() {
                return Ok(());
            }
            groups.kill();
            for pid in left {
                if let Some(started) = process::start_time(pid) {
                    process::signal_if_alive(pid, started, Signal::SIGKILL);
                }
            }
            if Instant::now() >= deadline {
                return Err(late(id, "ending its processes"));
            }
            sleep(POLL).await;
        }
    }

    /// The sandbox's groups as they were written down, or as they would be named here.
    pub(super) async fn groups(&self, id: &SandboxId) -> Result<Groups, Error> {
        let written: Option<Groups> =
            self.layout(id).read(GROUPS_FILE).map_err(Error::backend("read the sandbox's groups"))?;
        match written.filter(|groups| groups.belong_to(id.as_str())) {
            Some(groups) => Ok(groups),
            None => {
                let hierarchies = self.means().await.hierarchies.clone();
                Ok(Groups::new(hierarchies, &cgroup::tag(&self.options.root), id.as_str()))
            }
        }
    }

    /// Ends it and removes its groups, its disk and its directory, in this order: what names the rest goes last.
    pub(super) async fn end_and_remove(&self, id: &SandboxId) -> Result<(), Error> {
        let layout = self.layout(id);
        match self.end(id).await {
            Ok(()) => {}
            // Without its owner's name its user is not known, but its groups are.
            Err(Error::NotFound(_)) => self.finish_off(id, Owner { uid: None }).await?,
            Err(error) => return Err(error),
        }
        await_shims_end(id, &layout).await?;
        let groups = self.groups(id).await?;
        let (log, disks, name) = (self.log_path(id), self.disks(), id.to_string());
        blocking(move || {
            groups.remove().map_err(Error::backend("remove the sandbox's groups"))?;
            groups.remove_parents();
            disks.detach(&name).map_err(Error::backend("remove the sandbox's disk"))?;
            removal::remove(&layout, &log).map_err(Error::backend("remove the sandbox's directory"))
        })
        .await
    }
}

/// Processes that surely belong to the sandbox. Everything in its pid namespace ends with its init; the
/// namespace's number is not used: the kernel gives it to the next namespace as soon as this one is gone.
fn left(held: Option<&Held>, owner: Owner, groups: &Groups) -> Vec<i32> {
    let mut left = process::of_sandbox(None, owner.uid);
    left.extend(groups.processes());
    left.extend(
        held.filter(|held| process::is_alive(held.init_pid, held.init_start_time)).map(|held| held.init_pid),
    );
    left.retain(|pid| process::start_time(*pid).is_some());
    left
}

async fn await_shims_end(id: &SandboxId, layout: &Layout) -> Result<(), Error> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    while shim_lives(layout)? {
        if Instant::now() >= deadline {
            return Err(late(id, "the shim's end"));
        }
        sleep(POLL).await;
    }
    Ok(())
}

fn late(id: &SandboxId, what: &'static str) -> Error {
    Error::Timeout { id: id.clone(), what, seconds: KILL_TIMEOUT.as_secs() }
}
