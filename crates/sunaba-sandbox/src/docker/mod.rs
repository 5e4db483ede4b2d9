//! Sandboxes as containers of a Docker-compatible daemon.
//!
//! On this host a container has no network at all and reaches the server through its door directory, like a
//! local sandbox. A daemon on another machine (`remote`) gets volumes instead of directories and the worker
//! sent to it; its sandboxes come back through the tunnel.
//!
//! The daemon holds the containers, so they outlive the server; they are found again by name and label.
//! What the daemon cannot know (limits asked for, who asked for an end) is in a directory per sandbox.

mod engine;
mod exec;
mod files;
mod output;
mod places;
mod probe;
mod remote;
mod running;
mod sampling;
mod spec;
mod state;
mod tape;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::{
    KillContainerOptionsBuilder, ListContainersOptionsBuilder, StatsOptionsBuilder,
};
use futures::StreamExt as _;
use nix::unistd::geteuid;
use sunaba_types::shim;
use sunaba_types::{Enforcement, Finding, FindingStatus, SandboxId};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use self::engine::Engine;
use self::places::{Places, Users};
use self::probe::{Around, Daemon};
use crate::disk::Disks;
use crate::local::files::Inside;
use crate::local::resources::Available;
use crate::{
    CreateRequest, Error, ExecRequest, ExecResult, Exit, Isolation, Prepared, Provider, Report, ResourceUse,
    StartRequest, Status,
};

/// How long a container may take to end once it is killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Which daemon, and where its sandboxes' things are.
#[derive(Debug, Clone)]
pub struct DockerOptions {
    /// The daemon's address: `unix:///var/run/docker.sock`, `tcp://…`.
    pub host: String,
    /// Whether the daemon is on another machine, which sees none of this host's files.
    pub remote: bool,
    /// One directory per sandbox is made in here; not shared with another provider.
    pub root: PathBuf,
    /// Output of deleted sandboxes goes here.
    pub logs: PathBuf,
    /// The `sunaba-worker` program on this host. It has to run in every image that is used: a static one does.
    pub worker_program: PathBuf,
    /// The image of sandboxes that ask for none.
    pub default_image: String,
    /// Names this server's data directory: only containers with this label are its own.
    pub instance: String,
    /// The network of containers elsewhere; the daemon's own default without one. On this host there is none.
    pub network: Option<String>,
}

/// Makes sandboxes with a container daemon.
#[derive(Debug)]
pub struct DockerProvider {
    options: DockerOptions,
    engine: Engine,
    /// Asked once: what a daemon enforces does not change while it is up.
    daemon: OnceCell<Daemon>,
    cargo: remote::Cargo,
    /// Which system calls a container may make.
    filter: String,
    /// Whether a sandbox can have a disk of its own here; tried once.
    disks: OnceCell<bool>,
    /// As root on the daemon's host every sandbox gets a host user of its own.
    users: Users,
}

impl DockerProvider {
    /// Makes the directories if they are missing. The daemon is asked for nothing yet.
    pub fn new(options: DockerOptions) -> Result<Self, Error> {
        let engine = Engine::new(&options.host)?;
        for dir in [&options.root, &options.logs] {
            std::fs::create_dir_all(dir)
                .map_err(Error::backend(format!("make the directory {}", dir.display())))?;
        }
        let resolve = |path: &PathBuf| {
            std::fs::canonicalize(path).map_err(Error::backend(format!("resolve {}", path.display())))
        };
        let (root, worker_program) = (resolve(&options.root)?, resolve(&options.worker_program)?);
        let users = if geteuid().is_root() && !options.remote { Users::OwnEach } else { Users::Shared };
        let options = DockerOptions { root, worker_program, ..options };
        Ok(Self {
            options,
            engine,
            daemon: OnceCell::new(),
            cargo: remote::Cargo::default(),
            filter: crate::seccomp::docker_profile(),
            disks: OnceCell::new(),
            users,
        })
    }

    fn places(&self, id: &SandboxId) -> Places {
        Places::new(&self.options.root, id)
    }

    async fn daemon(&self) -> Result<&Daemon, Error> {
        self.daemon
            .get_or_try_init(|| async {
                let docker = self.engine.docker().await?;
                Ok(Daemon::of(&self.engine.ask("ask the daemon about itself", docker.info()).await?))
            })
            .await
    }

    /// Whether the kernel can keep a sandbox's disk to a size.
    async fn has_disks(&self) -> bool {
        let disks = Disks::new(&self.options.root);
        let wanted = self.users == Users::OwnEach;
        let tried = self.disks.get_or_init(|| async move {
            let tried = crate::local::blocking(move || Ok(disks.try_out().is_ok()));
            wanted && tried.await.unwrap_or(false)
        });
        *tried.await
    }

    async fn around(&self) -> Around {
        let disk = match self.options.remote {
            true => Enforcement::None,
            false if self.has_disks().await => Enforcement::Kernel,
            false => Enforcement::Sampled,
        };
        Around { remote: self.options.remote, own_users: self.users == Users::OwnEach, disk }
    }

    async fn inspect(&self, id: &SandboxId) -> Result<Option<ContainerInspectResponse>, Error> {
        let docker = self.engine.docker().await?;
        self.engine.find("look at the container", docker.inspect_container(&spec::name(id), None)).await
    }

    /// Where it is; a sandbox without a directory here is still seen if the daemon has it.
    async fn look(&self, id: &SandboxId) -> Result<Status, Error> {
        let places = self.places(id);
        let container = self.inspect(id).await?;
        let chosen = self.chosen_code(id, container.as_ref()).await;
        Ok(state::status(container.as_ref(), &places, places.owner()?.is_some(), chosen))
    }

    fn log_path(&self, id: &SandboxId) -> PathBuf {
        self.options.logs.join(format!("{id}.log"))
    }

    fn prepared(&self, places: &Places, owner: crate::local::owner::Owner) -> Prepared {
        if self.options.remote { Prepared::Elsewhere } else { Prepared::Here(places.here(owner)) }
    }
}

#[async_trait]
impl Provider for DockerProvider {
    fn name(&self) -> &'static str {
        "docker"
    }

    async fn fetch(&self, request: &CreateRequest) -> Result<(), Error> {
        let image = request.image.as_deref().unwrap_or(&self.options.default_image);
        let docker = self.engine.docker().await?;
        match self.engine.find("look for the image", docker.inspect_image(image)).await? {
            Some(_) => Ok(()),
            None => self.pull(image).await,
        }
    }

    async fn create(&self, id: &SandboxId, request: &CreateRequest) -> Result<Prepared, Error> {
        let (places, root, users) = (self.places(id), self.options.root.clone(), self.users);
        let (request, remote) = (request.clone(), self.options.remote);
        let disk_bytes = request.limits.disk_bytes.filter(|_| !remote);
        let disk_bytes = if disk_bytes.is_some() && self.has_disks().await { disk_bytes } else { None };
        let made = places.clone();
        let owner = crate::local::blocking(move || {
            if !remote && made.owner()?.is_none() {
                let here = Available::look(&root).map_err(Error::backend("look at this host"))?;
                here.check(&request.limits)?;
            }
            let owner = made.prepare(&root, &request, users)?;
            if !remote {
                made.make_directories(owner, disk_bytes)
                    .map_err(Error::backend("make the sandbox's directories"))?;
            }
            Ok(owner)
        })
        .await?;
        if self.options.remote {
            remote::make_volumes(&self.engine, id, &self.options.instance).await?;
        }
        Ok(self.prepared(&places, owner))
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Prepared>, Error> {
        let places = self.places(id);
        Ok(places.owner()?.map(|owner| self.prepared(&places, owner)))
    }

    async fn start(&self, id: &SandboxId, request: StartRequest) -> Result<(), Error> {
        match self.look(id).await? {
            Status::Running => Ok(()),
            Status::Exited(_) => Err(Error::AlreadyEnded(id.clone())),
            Status::Lost => Err(Error::Lost(id.clone())),
            Status::Absent => Err(Error::NotFound(id.clone())),
            Status::Prepared => self.run_container(id, &request).await,
        }
    }

    async fn status(&self, id: &SandboxId) -> Result<Status, Error> {
        self.look(id).await
    }

    async fn wait(&self, id: &SandboxId) -> Result<Exit, Error> {
        self.wait_for_end(id).await
    }

    async fn terminate(&self, id: &SandboxId) -> Result<(), Error> {
        // The guest, the first process inside, passes it on to the command.
        self.signal(id, "SIGTERM").await.map(drop)
    }

    async fn kill(&self, id: &SandboxId) -> Result<(), Error> {
        let places = self.places(id);
        match self.look(id).await? {
            Status::Absent => return Err(Error::NotFound(id.clone())),
            Status::Running => {
                if places.owner()?.is_some() {
                    places.note_killed()?;
                }
            }
            Status::Prepared | Status::Exited(_) | Status::Lost => return Ok(()),
        }
        let deadline = Instant::now() + KILL_TIMEOUT;
        loop {
            self.signal(id, "SIGKILL").await?;
            if self.look(id).await? != Status::Running {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Error::Timeout {
                    id: id.clone(),
                    what: "ending the container",
                    seconds: KILL_TIMEOUT.as_secs(),
                });
            }
            sleep(POLL).await;
        }
    }

    async fn delete(&self, id: &SandboxId) -> Result<(), Error> {
        let places = self.places(id);
        if let Some(container) = self.inspect(id).await? {
            match self.kill(id).await {
                Ok(()) | Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
            let kept =
                if places.layout.dir.exists() { places.path(shim::OUTPUT_FILE) } else { self.log_path(id) };
            // Of a dead one the daemon tells nothing any more; what it wrote was kept before its removal began.
            if !state::is_dead(&container) {
                output::keep(&self.engine, id, &kept).await?;
            }
            remote::remove_container(&self.engine, &spec::name(id)).await?;
        }
        if self.options.remote {
            remote::remove_container(&self.engine, &remote::helper(id)).await?;
            remote::remove_volumes(&self.engine, id).await?;
            // Only tidiness: what is left over costs some disk there, and is looked for again.
            if let Ok((worker, _)) = self.cargo.get(&self.options.worker_program).await {
                let _ = remote::remove_other_workers(&self.engine, worker).await;
            }
        }
        let (log, is_here) = (self.log_path(id), !self.options.remote);
        crate::local::blocking(move || {
            if is_here {
                places.end_strays()?;
            }
            places
                .remove_disk()
                .and_then(|()| crate::local::removal::remove(&places.layout, &log))
                .map_err(Error::backend("remove the sandbox's directory"))
        })
        .await
    }

    async fn list(&self) -> Result<Vec<SandboxId>, Error> {
        let root = self.options.root.clone();
        let mut ids = crate::local::blocking(move || {
            crate::local::list_directories(&root).map_err(Error::backend("list the sandboxes"))
        })
        .await?;
        let docker = self.engine.docker().await?;
        let instance = format!("{}={}", spec::INSTANCE_LABEL, self.options.instance);
        let wanted = HashMap::from([("label", vec![instance])]);
        let options = ListContainersOptionsBuilder::new().all(true).filters(&wanted).build();
        let containers =
            self.engine.ask("list the containers", docker.list_containers(Some(options))).await?;
        ids.extend(containers.iter().filter_map(|container| {
            let id = container.labels.as_ref()?.get(spec::SANDBOX_LABEL)?;
            SandboxId::parse(id.as_str()).ok()
        }));
        if self.options.remote {
            ids.extend(remote::list(&self.engine, &self.options.instance).await?);
        }
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    async fn output(&self, id: &SandboxId, offset: u64, limit: usize) -> Result<Vec<u8>, Error> {
        let kept = [self.places(id).path(shim::OUTPUT_FILE), self.log_path(id)];
        if !kept.iter().any(|path| path.exists()) && self.inspect(id).await?.is_some() {
            return output::read(&self.engine, id, offset, limit).await;
        }
        crate::local::blocking(move || {
            crate::local::read_first_that_exists(&kept, offset, limit)
                .map_err(Error::backend("read the output"))
        })
        .await
    }

    async fn exec(&self, id: &SandboxId, request: ExecRequest) -> Result<ExecResult, Error> {
        self.must_run(id).await?;
        exec::exec(&self.engine, id, request).await
    }

    async fn write_file(&self, id: &SandboxId, path: &str, content: &[u8], mode: u32) -> Result<(), Error> {
        let inside = Inside::parse(path)?;
        let places = self.places(id);
        let owner = places.owner()?.ok_or_else(|| Error::NotFound(id.clone()))?;
        if self.is_seen_inside_only(&places, &inside) {
            let own = if self.options.remote { remote::UID } else { geteuid().as_raw() };
            let owned = files::Owned { uid: owner.uid.unwrap_or(own), mode };
            return files::write(&self.engine, id, path, content, owned).await;
        }
        let content = content.to_vec();
        crate::local::blocking(move || {
            crate::local::files::write(&places.layout.disk(), &inside, &content, mode, owner.uid)
        })
        .await
    }

    async fn read_file(&self, id: &SandboxId, path: &str, limit: usize) -> Result<Vec<u8>, Error> {
        let inside = Inside::parse(path)?;
        let places = self.places(id);
        places.owner()?.ok_or_else(|| Error::NotFound(id.clone()))?;
        if self.is_seen_inside_only(&places, &inside) {
            return files::read(&self.engine, id, path, limit).await;
        }
        crate::local::blocking(move || crate::local::files::read(&places.layout.disk(), &inside, limit)).await
    }

    async fn usage(&self, id: &SandboxId) -> Result<ResourceUse, Error> {
        self.must_run(id).await?;
        let docker = self.engine.docker().await?;
        let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
        let name = spec::name(id);
        let mut stats = std::pin::pin!(docker.stats(&name, Some(options)));
        let next = async { stats.next().await.transpose() };
        let stats = self.engine.find("ask what the container uses", next).await?.flatten();
        let stats = stats.ok_or_else(|| Error::NotFound(id.clone()))?;
        let mut used = running::use_of(&stats);
        used.disk_bytes = self.disk_use(id).await;
        Ok(used)
    }

    async fn isolation(&self) -> Result<Isolation, Error> {
        Ok(self.daemon().await?.isolation(self.around().await))
    }

    async fn report(&self) -> Report {
        match self.daemon().await {
            Ok(daemon) => {
                let around = self.around().await;
                let findings = daemon.findings(self.engine.host(), around);
                Report { isolation: Some(daemon.isolation(around)), findings }
            }
            Err(error) => Report {
                isolation: None,
                findings: vec![Finding {
                    name: "container daemon".to_owned(),
                    status: FindingStatus::Missing,
                    detail: error.to_string(),
                    remedy: Some("start the daemon, or choose another provider".to_owned()),
                }],
            },
        }
    }

    async fn close(&self) -> Result<(), Error> {
        let disks = crate::disk::Disks::new(&self.options.root);
        crate::local::blocking(move || {
            disks.close().map_err(Error::backend("remove the disks' common mount"))
        })
        .await
    }
}

impl DockerProvider {
    /// The code above 128 that the command chose, if it left a note of one.
    async fn chosen_code(&self, id: &SandboxId, container: Option<&ContainerInspectResponse>) -> Option<i64> {
        container?.state.as_ref()?.exit_code.filter(|code| *code > 128)?;
        let note = format!("{}/{}", shim::HOME_INSIDE, shim::CODE_FILE);
        let note = self.read_file(id, &note, 16).await.ok()?;
        String::from_utf8(note).ok()?.trim().parse().ok()
    }

    /// Says why nothing can be done in a sandbox that does not run.
    async fn must_run(&self, id: &SandboxId) -> Result<(), Error> {
        match self.look(id).await? {
            Status::Running => Ok(()),
            Status::Prepared => Err(Error::NotStarted(id.clone())),
            Status::Exited(_) => Err(Error::AlreadyEnded(id.clone())),
            Status::Lost => Err(Error::Lost(id.clone())),
            Status::Absent => Err(Error::NotFound(id.clone())),
        }
    }

    /// Whether a file has to be asked for through the daemon: it is elsewhere, or over a layer.
    fn is_seen_inside_only(&self, places: &Places, path: &Inside) -> bool {
        self.options.remote || places.work_of(path.dir).exists()
    }

    /// Sends a signal to the first process; `false` when nothing runs.
    async fn signal(&self, id: &SandboxId, name: &str) -> Result<bool, Error> {
        let docker = self.engine.docker().await?;
        let options = KillContainerOptionsBuilder::new().signal(name).build();
        match docker.kill_container(&spec::name(id), Some(options)).await {
            Ok(()) => Ok(true),
            // It does not run, or is not there.
            Err(error) if matches!(engine::status(&error), Some(404 | 409)) => Ok(false),
            Err(error) => Err(engine::failed("signal the container")(error)),
        }
    }
}
