//! Sandboxes on this host: bubblewrap, each held by a detached shim.
//!
//! This side only writes files, starts shims and asks them; it never is a
//! sandbox's parent, so a sandbox outlives the server. A running one is adopted
//! by its control socket and (pid, start time), never by a pid alone.

mod control;
mod layout;
mod owner;
mod probe;
mod registry;
mod removal;
mod shim_start;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use sunaba_types::SandboxId;
use sunaba_types::shim::{self, Exit, Held, Reply, Request};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;

use self::layout::{Layout, OWNER_FILE};
use self::owner::Owner;
pub use self::owner::UID_RANGE;
pub use self::probe::find_bubblewrap;
use crate::{
    CreateRequest, Error, ExecRequest, ExecResult, HostPlaces, Isolation, Prepared, Provider, Report,
    ResourceUse, StartRequest, Status, process,
};

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
    /// Waits for the shims this process started, so that none stays a zombie.
    reapers: TaskTracker,
    /// What the host enforces does not change while it is up; asked for at every start.
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
            reapers: TaskTracker::new(),
            isolation: tokio::sync::OnceCell::new(),
        })
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

    fn owner(&self, id: &SandboxId) -> Result<Owner, Error> {
        self.layout(id)
            .read(OWNER_FILE)
            .map_err(Error::backend("read the sandbox's owner"))?
            .ok_or_else(|| Error::NotFound(id.clone()))
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

    /// Ends what is left without the shim's help and answers once nothing is.
    async fn finish_off(&self, id: &SandboxId, owner: Owner) -> Result<(), Error> {
        let held = self.held_record(id)?;
        let deadline = Instant::now() + KILL_TIMEOUT;
        loop {
            // Everything in the pid namespace ends with its init. The namespace's number is not used: the
            // kernel gives it to the next namespace as soon as this one is gone.
            let mut left = process::of_sandbox(None, owner.uid);
            if let Some(held) =
                held.as_ref().filter(|held| process::is_alive(held.init_pid, held.init_start_time))
            {
                left.push(held.init_pid);
            }
            if left.is_empty() {
                return Ok(());
            }
            for pid in left {
                if let Some(started) = process::start_time(pid) {
                    process::signal_if_alive(pid, started, Signal::SIGKILL);
                }
            }
            if Instant::now() >= deadline {
                return Err(Error::Timeout {
                    id: id.clone(),
                    what: "ending its processes",
                    seconds: KILL_TIMEOUT.as_secs(),
                });
            }
            sleep(POLL).await;
        }
    }
}

#[async_trait]
impl Provider for LocalProvider {
    fn name(&self) -> &'static str {
        "local"
    }

    async fn create(&self, id: &SandboxId, _request: &CreateRequest) -> Result<Prepared, Error> {
        let (root, layout, separate) = (self.options.root.clone(), self.layout(id), self.separate_users);
        blocking(move || {
            let owner = owner::claim(&root, &layout, separate)?;
            make_directories(&layout, owner).map_err(Error::backend("make the sandbox's directories"))?;
            Ok(Prepared::Here(places(&layout, owner)))
        })
        .await
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Prepared>, Error> {
        match self.owner(id) {
            Ok(owner) => Ok(Some(Prepared::Here(places(&self.layout(id), owner)))),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn start(&self, id: &SandboxId, request: StartRequest) -> Result<(), Error> {
        let owner = self.owner(id)?;
        match self.status(id).await? {
            Status::Running => Ok(()),
            Status::Exited(_) => Err(Error::AlreadyEnded(id.clone())),
            Status::Lost => Err(Error::Lost(id.clone())),
            Status::Absent => Err(Error::NotFound(id.clone())),
            Status::Prepared => self.start_shim(id, owner, request).await.map(drop),
        }
    }

    async fn status(&self, id: &SandboxId) -> Result<Status, Error> {
        let layout = self.layout(id);
        if !layout.path(OWNER_FILE).exists() {
            return Ok(Status::Absent);
        }
        if let Some(exit) = self.exit_record(id)? {
            return Ok(Status::Exited(exit));
        }
        match timeout(STATUS_TIMEOUT, control::ask(&layout.dir, &Request::Status)).await {
            Ok(Ok(Reply::Running(held))) if process::is_alive(held.shim_pid, held.shim_start_time) => {
                Ok(Status::Running)
            }
            Ok(Ok(Reply::Exited(exit))) => Ok(Status::Exited(exit)),
            _ => self.status_without_shim(id),
        }
    }

    async fn wait(&self, id: &SandboxId) -> Result<Exit, Error> {
        let layout = self.layout(id);
        loop {
            // No deadline here: how long a sandbox may run is its owner's decision. The shim answers
            // when it is over, and its end closes the socket.
            if let Ok(Reply::Exited(exit)) = control::ask(&layout.dir, &Request::Wait).await {
                return Ok(exit);
            }
            match self.status(id).await? {
                Status::Exited(exit) => return Ok(exit),
                Status::Lost => return Err(Error::Lost(id.clone())),
                Status::Absent => return Err(Error::NotFound(id.clone())),
                Status::Prepared if !shim_lives(&layout)? => return Err(Error::NotStarted(id.clone())),
                Status::Prepared | Status::Running => sleep(POLL * 10).await,
            }
        }
    }

    async fn terminate(&self, id: &SandboxId) -> Result<(), Error> {
        let layout = self.layout(id);
        match timeout(STATUS_TIMEOUT, control::ask(&layout.dir, &Request::Terminate)).await {
            Ok(Ok(_)) => Ok(()),
            _ => match self.status(id).await? {
                Status::Running => Err(Error::Timeout {
                    id: id.clone(),
                    what: "asking it to end",
                    seconds: STATUS_TIMEOUT.as_secs(),
                }),
                _ => Ok(()),
            },
        }
    }

    async fn kill(&self, id: &SandboxId) -> Result<(), Error> {
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

    async fn delete(&self, id: &SandboxId) -> Result<(), Error> {
        let layout = self.layout(id);
        match self.kill(id).await {
            Ok(()) => {}
            // Without its owner's name nothing of it can have run; what is left of the directory goes.
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        let deadline = Instant::now() + KILL_TIMEOUT;
        while shim_lives(&layout)? {
            if Instant::now() >= deadline {
                return Err(Error::Timeout {
                    id: id.clone(),
                    what: "the shim's end",
                    seconds: KILL_TIMEOUT.as_secs(),
                });
            }
            sleep(POLL).await;
        }
        let log = self.log_path(id);
        blocking(move || {
            removal::remove(&layout, &log).map_err(Error::backend("remove the sandbox's directory"))
        })
        .await
    }

    async fn list(&self) -> Result<Vec<SandboxId>, Error> {
        let root = self.options.root.clone();
        blocking(move || list_directories(&root).map_err(Error::backend("list the sandboxes"))).await
    }

    async fn output(&self, id: &SandboxId, offset: u64, limit: usize) -> Result<Vec<u8>, Error> {
        let places = [self.layout(id).path(shim::OUTPUT_FILE), self.log_path(id)];
        blocking(move || {
            read_first_that_exists(&places, offset, limit).map_err(Error::backend("read the output"))
        })
        .await
    }

    async fn exec(&self, _id: &SandboxId, _request: ExecRequest) -> Result<ExecResult, Error> {
        Err(Error::Unsupported("not built yet".to_owned()))
    }

    async fn write_file(&self, _: &SandboxId, _: &str, _: &[u8], _: u32) -> Result<(), Error> {
        Err(Error::Unsupported("not built yet".to_owned()))
    }

    async fn read_file(&self, _: &SandboxId, _: &str, _: usize) -> Result<Vec<u8>, Error> {
        Err(Error::Unsupported("not built yet".to_owned()))
    }

    async fn usage(&self, _: &SandboxId) -> Result<ResourceUse, Error> {
        Err(Error::Unsupported("not built yet".to_owned()))
    }

    async fn report(&self) -> Report {
        Report { isolation: self.isolation().await.ok(), findings: Vec::new() }
    }

    async fn isolation(&self) -> Result<Isolation, Error> {
        self.isolation.get_or_try_init(|| probe::isolation(self.separate_users)).await.cloned()
    }
}

impl LocalProvider {
    fn log_path(&self, id: &SandboxId) -> PathBuf {
        self.options.logs.join(format!("{id}.log"))
    }
}

fn shim_lives(layout: &Layout) -> Result<bool, Error> {
    layout.shim_holds_lock().map_err(Error::backend("look at the shim's lock"))
}

/// Runs file work off the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Backend {
        what: "file work was cut off".to_owned(),
        source: Box::new(error),
    })?
}

fn places(layout: &Layout, owner: Owner) -> HostPlaces {
    HostPlaces {
        workspace: layout.path(shim::WORKSPACE_DIR),
        door_dir: layout.path(shim::DOOR_DIR),
        owner_uid: owner.uid,
    }
}

fn make_directories(layout: &Layout, owner: Owner) -> io::Result<()> {
    for name in [shim::WORKSPACE_DIR, shim::HOME_DIR] {
        let path = layout.path(name);
        owner::create_private_dir(&path)?;
        if let Some(uid) = owner.uid {
            std::os::unix::fs::lchown(&path, Some(uid), Some(uid))?;
        }
    }
    owner::create_private_dir(&layout.path(removal::SCRATCH_DIR))?;
    let door = layout.path(shim::DOOR_DIR);
    owner::create_private_dir(&door)?;
    // The sandbox may enter but not write: it is bound read-only and belongs to the server.
    std::fs::set_permissions(&door, std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

fn list_directories(root: &Path) -> io::Result<Vec<SandboxId>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        if let Some(id) = entry.file_name().to_str().and_then(|name| SandboxId::parse(name).ok()) {
            found.push(id);
        }
    }
    found.sort();
    Ok(found)
}

fn read_first_that_exists(places: &[PathBuf], offset: u64, limit: usize) -> io::Result<Vec<u8>> {
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
