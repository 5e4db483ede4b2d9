//! Sandboxes on this host: bubblewrap, each held by a detached shim.
//!
//! This side only writes files, starts shims and asks them; it never is a
//! sandbox's parent, so a sandbox outlives the server. A running one is adopted
//! by its control socket and (pid, start time), never by a pid alone.

mod control;
mod ending;
mod exec;
pub(crate) mod files;
mod inside;
pub(crate) mod layout;
mod means;
pub(crate) mod owner;
mod port;
mod python;
mod registry;
pub(crate) mod removal;
pub(crate) mod resources;
mod shim_start;
mod through;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;
use sunaba_types::SandboxId;
use sunaba_types::shim::{self, Exit, Held};
use tokio_util::task::TaskTracker;

pub use self::inside::{FoundProgram, find_inside};
pub use self::layout::GROUPS_FILE;
use self::layout::{LIMITS_FILE, Layout, OWNER_FILE};
pub use self::means::Keeping;
use self::means::Means;
use self::owner::Owner;
pub use self::owner::UID_RANGE;
use self::resources::Available;
use crate::disk::Disks;
use crate::{CreateRequest, Error, HostPlaces, Isolation, Limits, Prepared, Provider as _, Status, process};

/// How long a shim may take to say where its sandbox is.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a shim may take to end its sandbox before it is ended itself.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a condition that nothing announces is looked at.
const POLL: Duration = Duration::from_millis(5);

/// Where local sandboxes live.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// One directory per sandbox is made in here.
    pub root: PathBuf,
    /// Output of deleted sandboxes goes here.
    pub logs: PathBuf,
    /// The `sunaba-worker` program on this host.
    pub worker_program: PathBuf,
}

/// Makes sandboxes on this host.
#[derive(Debug)]
pub struct LocalProvider {
    options: LocalOptions,
    /// As root every sandbox gets a host user of its own.
    separate_users: bool,
    keeping: Keeping,
    seccomp: bool,
    /// Waits for the shims this process started, so that none stays a zombie.
    reapers: TaskTracker,
    /// Looks at the host that are under way: each makes something and removes it again.
    looks: TaskTracker,
    /// What keeps limits here; it does not change while the host is up.
    means: tokio::sync::OnceCell<Means>,
    /// What the host enforces; asked for at every start.
    isolation: tokio::sync::OnceCell<Isolation>,
}

impl LocalProvider {
    /// Makes the directories if they are missing. Sandboxes that already run there are adopted as they are asked for.
    pub fn new(options: LocalOptions) -> Result<Self, Error> {
        for dir in [&options.root, &options.logs] {
            std::fs::create_dir_all(dir)
                .map_err(Error::backend(format!("make the directory {}", dir.display())))?;
        }
        let root = std::fs::canonicalize(&options.root)
            .map_err(Error::backend(format!("resolve {}", options.root.display())))?;
        let options = LocalOptions { root, ..options };
        Ok(Self {
            options,
            separate_users: geteuid().is_root(),
            keeping: Keeping::Best,
            seccomp: true,
            reapers: TaskTracker::new(),
            looks: TaskTracker::new(),
            means: tokio::sync::OnceCell::new(),
            isolation: tokio::sync::OnceCell::new(),
        })
    }

    /// Decides by what limits are kept; the best the host has, unless told otherwise.
    #[must_use]
    pub fn keeping(self, keeping: Keeping) -> Self {
        Self { keeping, ..self }
    }

    /// Leaves system calls unfiltered: only for tests, which show what the filter adds to the other walls.
    #[must_use]
    pub fn without_call_filter(self) -> Self {
        Self { seccomp: false, ..self }
    }

    /// Who holds a running sandbox.
    pub async fn held(&self, id: &SandboxId) -> Result<Option<Held>, Error> {
        Ok(match self.status(id).await? {
            Status::Running => self.held_record(id)?,
            _ => None,
        })
    }

    fn layout(&self, id: &SandboxId) -> Layout {
        Layout::new(&self.options.root, id)
    }

    fn disks(&self) -> Disks {
        Disks::new(&self.options.root)
    }

    fn owner(&self, id: &SandboxId) -> Result<Owner, Error> {
        self.layout(id)
            .read(OWNER_FILE)
            .map_err(Error::backend("read the sandbox's owner"))?
            .ok_or_else(|| Error::NotFound(id.clone()))
    }

    fn limits(&self, id: &SandboxId) -> Result<Limits, Error> {
        let limits =
            self.layout(id).read(LIMITS_FILE).map_err(Error::backend("read the sandbox's limits"))?;
        Ok(limits.unwrap_or_default())
    }

    fn exit_record(&self, id: &SandboxId) -> Result<Option<Exit>, Error> {
        self.layout(id).read(shim::EXIT_FILE).map_err(Error::backend("read the sandbox's exit record"))
    }

    fn held_record(&self, id: &SandboxId) -> Result<Option<Held>, Error> {
        self.layout(id).read(shim::HELD_FILE).map_err(Error::backend("read the shim's record"))
    }

    /// What the files and the process table say, when the shim does not answer.
    fn status_without_shim(&self, id: &SandboxId) -> Result<Status, Error> {
        if let Some(exit) = self.exit_record(id)? {
            return Ok(Status::Exited(exit));
        }
        let Some(held) = self.held_record(id)? else { return Ok(Status::Prepared) };
        if process::is_alive(held.shim_pid, held.shim_start_time) {
            return Ok(Status::Running);
        }
        // It may have written its record between the first look and its end.
        Ok(self.exit_record(id)?.map_or(Status::Lost, Status::Exited))
    }

    /// Fails unless the sandbox runs, in the words of what it is instead.
    async fn require_running(&self, id: &SandboxId) -> Result<(), Error> {
        match self.status(id).await? {
            Status::Running => Ok(()),
            Status::Absent => Err(Error::NotFound(id.clone())),
            Status::Prepared => Err(Error::NotStarted(id.clone())),
            Status::Exited(_) => Err(Error::AlreadyEnded(id.clone())),
            Status::Lost => Err(Error::Lost(id.clone())),
        }
    }

    async fn make(&self, id: &SandboxId, request: &CreateRequest) -> Result<Prepared, Error> {
        if id.as_str().starts_with('.') || id.as_str() == "shims" {
            return Err(Error::Refused(format!("{id} is no name for a sandbox on this host")));
        }
        let images = self.means().await.images.is_ok();
        let (root, layout, disks) = (self.options.root.clone(), self.layout(id), self.disks());
        let (separate, limits, name) = (self.separate_users, request.limits, id.to_string());
        blocking(move || {
            let known: Option<Limits> =
                layout.read(LIMITS_FILE).map_err(Error::backend("read the sandbox's limits"))?;
            if known.is_none() {
                Available::look(&root).map_err(Error::backend("look at this host"))?.check(&limits)?;
            }
            let owner = owner::claim(&root, &layout, separate)?;
            if known.is_none() {
                layout.write(LIMITS_FILE, &limits).map_err(Error::backend("write the sandbox's limits"))?;
            }
            let disk_bytes = known.unwrap_or(limits).disk_bytes.filter(|_| images || disks.has(&name));
            make_directories(&layout).map_err(Error::backend("make the sandbox's directories"))?;
            if let Some(bytes) = disk_bytes {
                disks.attach(&name, bytes).map_err(Error::backend("make the sandbox's disk"))?;
            }
            make_shared(&layout.disk(), owner).map_err(Error::backend("make the sandbox's workspace"))?;
            Ok(Prepared::Here(places(&layout, owner)))
        })
        .await
    }

    fn log_path(&self, id: &SandboxId) -> PathBuf {
        self.options.logs.join(format!("{id}.log"))
    }
}

fn shim_lives(layout: &Layout) -> Result<bool, Error> {
    layout.shim_holds_lock().map_err(Error::backend("look at the shim's lock"))
}

/// Runs file work off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Backend {
        what: "file work was cut off".to_owned(),
        source: Box::new(error),
    })?
}

fn places(layout: &Layout, owner: Owner) -> HostPlaces {
    HostPlaces {
        workspace: layout.disk().join(shim::WORKSPACE_DIR),
        door_dir: layout.path(shim::DOOR_DIR),
        owner_uid: owner.uid,
    }
}

fn make_directories(layout: &Layout) -> io::Result<()> {
    owner::create_private_dir(&layout.path(crate::disk::DISK_DIR))?;
    owner::create_private_dir(&layout.path(removal::SCRATCH_DIR))?;
    let door = layout.path(shim::DOOR_DIR);
    owner::create_private_dir(&door)?;
    // The sandbox may enter but not write: it is bound read-only and belongs to the server.
    std::fs::set_permissions(&door, std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

/// Makes what the sandbox writes to.
fn make_shared(disk: &Path, owner: Owner) -> io::Result<()> {
    for name in [shim::WORKSPACE_DIR, shim::HOME_DIR] {
        let path = disk.join(name);
        owner::create_private_dir(&path)?;
        if let Some(uid) = owner.uid {
            std::os::unix::fs::lchown(&path, Some(uid), Some(uid))?;
        }
    }
    Ok(())
}

/// The sandboxes that have a directory.
pub(crate) fn list_directories(root: &Path) -> io::Result<Vec<SandboxId>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        // Names that begin with a dot are the server's own.
        if !entry.file_type()?.is_dir() || entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if let Some(id) = entry.file_name().to_str().and_then(|name| SandboxId::parse(name).ok()) {
            found.push(id);
        }
    }
    found.sort();
    Ok(found)
}

pub(crate) fn read_first_that_exists(places: &[PathBuf], offset: u64, limit: usize) -> io::Result<Vec<u8>> {
    use std::io::{Read as _, Seek as _};
    for place in places {
        let mut file = match std::fs::File::open(place) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        file.seek(io::SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(u64::try_from(limit).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    Ok(Vec::new())
}
