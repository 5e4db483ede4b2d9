//! What the server keeps about each container, in a directory named after its sandbox.
//!
//! On one host it holds the workspace, the home and the door as well; with a daemon elsewhere only the
//! records. It is made before the container and removed after it, so a crash never leaves a container
//! that nothing here names, except with this server's label on it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use sunaba_types::SandboxId;
use sunaba_types::shim::{self, Limits};

use crate::disk::{DISK_DIR, DISK_MIN_BYTES, Disks};
use crate::local::layout::Layout;
use crate::local::owner::{self, Owner};
use crate::local::removal;
use crate::{CreateRequest, Error, HostPlaces, process};

/// What the sandbox was created with.
const WANTED_FILE: &str = "wanted.json";
/// There once its container is about to run.
const STARTED_FILE: &str = "started.json";
/// There once somebody asked for its end.
const KILLED_FILE: &str = "killed.json";
/// Why the server ended it, if it did.
const ENDED_FILE: &str = "ended.json";

/// How long processes that were killed may take to be gone.
const STRAYS_PATIENCE: Duration = Duration::from_secs(10);
const STRAYS_POLL: Duration = Duration::from_millis(5);

/// What a sandbox was created with, for the start that may come from another server process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    pub(super) limits: Limits,
    pub(super) image: Option<String>,
}

/// One sandbox's directory.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) layout: Layout,
}

impl Places {
    pub(super) fn new(root: &Path, id: &SandboxId) -> Self {
        Self { layout: Layout::new(root, id) }
    }

    /// Makes the directory and its records, or finds them.
    pub(super) fn prepare(&self, root: &Path, request: &CreateRequest, users: Users) -> Result<Owner, Error> {
        let owner = owner::claim(root, &self.layout, users == Users::OwnEach)?;
        if self.wanted()?.is_none() {
            let wanted = Wanted { limits: request.limits, image: request.image.clone() };
            self.layout.write(WANTED_FILE, &wanted).map_err(Error::backend("write the sandbox's record"))?;
        }
        Ok(owner)
    }

    /// Makes what is bound into the container: on a disk of its own size, if `disk_bytes` says so.
    pub(super) fn make_directories(&self, owner: Owner, disk_bytes: Option<u64>) -> io::Result<()> {
        match (
            disk_bytes,
            self.layout.dir.parent(),
            self.layout.dir.file_name().and_then(|name| name.to_str()),
        ) {
            (Some(bytes), Some(root), Some(name)) => {
                let place = Disks::new(root).attach(name, bytes.max(DISK_MIN_BYTES))?;
                // The daemon's containers reach it through the mount, nobody else does.
                std::fs::set_permissions(place, std::os::unix::fs::PermissionsExt::from_mode(0o711))?;
            }
            _ => owner::create_private_dir(&self.path(DISK_DIR))?,
        }
        for name in [shim::WORKSPACE_DIR, shim::HOME_DIR] {
            let path = self.own(name);
            owner::create_private_dir(&path)?;
            if let Some(uid) = owner.uid {
                std::os::unix::fs::lchown(&path, Some(uid), Some(uid))?;
            }
        }
        owner::create_private_dir(&self.layout.path(removal::SCRATCH_DIR))?;
        let door = self.layout.path(shim::DOOR_DIR);
        owner::create_private_dir(&door)?;
        // The sandbox may enter but not write: it is bound read-only and belongs to the server.
        std::fs::set_permissions(&door, std::os::unix::fs::PermissionsExt::from_mode(0o755))
    }

    pub(super) fn owner(&self) -> Result<Option<Owner>, Error> {
        self.layout.read(crate::local::layout::OWNER_FILE).map_err(Error::backend("read the sandbox's owner"))
    }

    pub(super) fn wanted(&self) -> Result<Option<Wanted>, Error> {
        self.layout.read(WANTED_FILE).map_err(Error::backend("read the sandbox's record"))
    }

    pub(super) fn here(&self, owner: Owner) -> HostPlaces {
        HostPlaces {
            workspace: self.own(shim::WORKSPACE_DIR),
            door_dir: self.path(shim::DOOR_DIR),
            owner_uid: owner.uid,
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.layout.path(name)
    }

    /// One of the two directories that the sandbox writes to.
    pub(super) fn own(&self, name: &str) -> PathBuf {
        self.layout.disk().join(name)
    }

    /// Where a layered directory keeps what is half done; there only for one.
    pub(super) fn work_of(&self, name: &str) -> PathBuf {
        self.own(&format!("{name}.work"))
    }

    /// Ends what the daemon knows nothing of: one that is killed in the middle of a start leaves a process that
    /// waits for its word, with the sandbox's disk in its hands. It is known by the sandbox's own user.
    pub(super) fn end_strays(&self) -> Result<(), Error> {
        let uid = self.owner()?.and_then(|owner| owner.uid);
        let deadline = Instant::now() + STRAYS_PATIENCE;
        loop {
            let strays = process::of_sandbox(None, uid);
            if strays.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let late = io::ErrorKind::TimedOut.into();
                return Err(Error::backend("end what the daemon left of the sandbox")(late));
            }
            for pid in strays {
                if let Some(started) = process::start_time(pid) {
                    process::signal_if_alive(pid, started, Signal::SIGKILL);
                }
            }
            std::thread::sleep(STRAYS_POLL);
        }
    }

    /// Takes the sandbox's disk away, if it has one.
    pub(super) fn remove_disk(&self) -> io::Result<()> {
        match (self.layout.dir.parent(), self.layout.dir.file_name().and_then(|name| name.to_str())) {
            (Some(root), Some(name)) if Disks::new(root).has(name) => Disks::new(root).detach(name),
            _ => Ok(()),
        }
    }

    pub(super) fn note_started(&self) -> Result<(), Error> {
        self.layout.write(STARTED_FILE, &true).map_err(Error::backend("note that the sandbox starts"))
    }

    /// A container that could not be started has not run.
    pub(super) fn forget_started(&self) {
        let _ = std::fs::remove_file(self.path(STARTED_FILE));
    }

    pub(super) fn was_started(&self) -> bool {
        self.path(STARTED_FILE).exists()
    }

    pub(super) fn note_killed(&self) -> Result<(), Error> {
        self.layout.write(KILLED_FILE, &true).map_err(Error::backend("note that the sandbox was killed"))
    }

    pub(super) fn was_killed(&self) -> bool {
        self.path(KILLED_FILE).exists()
    }

    /// Notes which limit the sandbox is ended for.
    pub(super) fn note_ended_for(&self, limit: &str) -> Result<(), Error> {
        self.layout.write(ENDED_FILE, &limit).map_err(Error::backend("note why the sandbox was ended"))
    }

    pub(super) fn ended_for(&self) -> Option<String> {
        self.layout.read(ENDED_FILE).ok().flatten()
    }
}

/// Whose files the sandboxes' are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Users {
    /// Each sandbox has a host user of its own.
    OwnEach,
    /// All are the server's own, or are on another machine.
    Shared,
}
