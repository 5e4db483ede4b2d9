//! Brings a container up, and watches it until it is over.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use bollard::models::{ContainerStatsResponse, Mount};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, CreateImageOptionsBuilder, WaitContainerOptionsBuilder,
};
use futures::StreamExt as _;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{getegid, geteuid};
use sunaba_types::SandboxId;
use sunaba_types::shim::{self, DOOR_DIR_INSIDE, HOME_INSIDE, WORKER_INSIDE, WORKSPACE_INSIDE};
use tokio::time::timeout;

use super::engine::{status, words};
use super::places::{Places, Wanted};
use super::spec::{self, Spec};
use super::{DockerProvider, remote};
use crate::{Bind, Error, Exit, ResourceUse, StartRequest, Status, disk};

/// How long an image may take to be fetched.
const PULL: Duration = Duration::from_secs(15 * 60);
/// How often a running sandbox's disk is looked at.
const LOOK: Duration = Duration::from_secs(2);

impl DockerProvider {
    /// Makes the container and starts it. What an earlier try left is replaced: its environment may be old.
    pub(super) async fn run_container(&self, id: &SandboxId, request: &StartRequest) -> Result<(), Error> {
        if request.root_fs.is_some() {
            return Err(Error::Unsupported(
                "a container has an image, not a root_fs: set the project's image instead".to_owned(),
            ));
        }
        let places = self.places(id);
        let wanted = places.wanted()?.unwrap_or_default();
        let name = spec::name(id);
        remote::remove_container(&self.engine, &name).await?;
        self.make_container(id, &places, &wanted, request).await?;
        if self.options.remote {
            let image = wanted.image.as_deref().unwrap_or(&self.options.default_image);
            let cargo = self.cargo.get(&self.options.worker_program).await?;
            remote::furnish(&self.engine, id, (&self.options.instance, image), cargo).await?;
        }
        places.note_started()?;
        let docker = self.engine.docker().await?;
        let started = timeout(super::KILL_TIMEOUT * 2, docker.start_container(&name, None)).await;
        let reason = match started {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => self.explain(&words(&error)),
            Err(_) => "the daemon did not answer in time".to_owned(),
        };
        remote::remove_container(&self.engine, &name).await?;
        places.forget_started();
        Err(Error::StartFailed { id: id.clone(), reason })
    }

    async fn make_container(
        &self,
        id: &SandboxId,
        places: &Places,
        wanted: &Wanted,
        request: &StartRequest,
    ) -> Result<(), Error> {
        let daemon = self.daemon().await?;
        let image = wanted.image.as_deref().unwrap_or(&self.options.default_image);
        let spec = Spec {
            id,
            instance: &self.options.instance,
            image,
            user: self.user(places, daemon.rootless)?,
            limits: wanted.limits,
            mounts: self.mounts(id, places, request).await?,
            network: self.network(),
            seccomp: daemon.seccomp.then_some(&*self.filter),
            users_mapped: daemon.users_mapped && !self.options.remote,
            open_files: self.open_files(),
        };
        let body = spec.body(request);
        let docker = self.engine.docker().await?;
        let options = CreateContainerOptionsBuilder::new().name(&spec::name(id)).build();
        match docker.create_container(Some(options.clone()), body.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) if status(&error) == Some(404) => self.pull(image).await?,
            Err(error) => return Err(self.not_made(id, &error)),
        }
        let made = docker.create_container(Some(options), body).await;
        made.map(drop).map_err(|error| self.not_made(id, &error))
    }

    /// How many files a process may have open, if it asks. A daemon that may not raise its own limit starts nothing
    /// that asks for more: on this machine its limit is ours, that of another machine is not known and stays as it is.
    fn open_files(&self) -> Option<u64> {
        if self.options.remote {
            return None;
        }
        let (_, own) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        Some(own.min(spec::OPEN_FILES_MAX))
    }

    fn not_made(&self, id: &SandboxId, error: &bollard::errors::Error) -> Error {
        Error::StartFailed { id: id.clone(), reason: self.explain(&words(error)) }
    }

    /// What the container is attached to.
    fn network(&self) -> &str {
        match &self.options.network {
            _ if !self.options.remote => "none",
            Some(network) => network,
            None => "bridge",
        }
    }

    /// The daemon's words, and what to do about those that people meet.
    fn explain(&self, said: &str) -> String {
        let network = self.network();
        if said.contains("network") && said.contains("not found") {
            return format!(
                "the daemon has no network {network} ({said}): make it there (docker network create {network}) or \
                 set docker.network to one that it has"
            );
        }
        if said.contains(WORKER_INSIDE) && said.contains("no such file") {
            return format!(
                "the worker does not run in this image ({said}): use the static worker of a release \
                 (sandbox.worker_program), or an image with the libraries of the system it was built on"
            );
        }
        said.to_owned()
    }

    pub(super) async fn pull(&self, image: &str) -> Result<(), Error> {
        let docker = self.engine.docker().await?;
        // Without a tag every tag would be fetched.
        let tagged = image.rsplit('/').next().is_some_and(|last| last.contains([':', '@']));
        let image = if tagged { image.to_owned() } else { format!("{image}:latest") };
        let options = CreateImageOptionsBuilder::new().from_image(&image).build();
        let pulling = async {
            let mut steps = pin!(docker.create_image(Some(options), None, None));
            while let Some(step) = steps.next().await {
                step?;
            }
            Ok::<_, bollard::errors::Error>(())
        };
        match timeout(PULL, pulling).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Error::Unsupported(format!(
                "the daemon has no image {image} and cannot fetch it ({}): pull it there or set SANDBOX_IMAGE",
                words(&error)
            ))),
            Err(_) => {
                Err(Error::Unsupported(format!("fetching the image {image} took longer than {PULL:?}")))
            }
        }
    }

    /// Who it is inside: on this host whoever owns its files.
    fn user(&self, places: &Places, rootless: bool) -> Result<String, Error> {
        let uid = places.owner()?.and_then(|owner| owner.uid);
        Ok(match uid {
            _ if self.options.remote => format!("{0}:{0}", remote::UID),
            // Root inside is the daemon's own user outside, which is who owns the files.
            _ if rootless => "0:0".to_owned(),
            Some(uid) => format!("{uid}:{uid}"),
            None => format!("{}:{}", geteuid(), getegid()),
        })
    }

    async fn mounts(
        &self,
        id: &SandboxId,
        places: &Places,
        request: &StartRequest,
    ) -> Result<Vec<Mount>, Error> {
        if self.options.remote {
            if !request.layers.is_empty() || !request.binds.is_empty() {
                return Err(Error::Unsupported(
                    "a container on another machine sees none of this host's files: put them into its image"
                        .to_owned(),
                ));
            }
            let (worker, _) = self.cargo.get(&self.options.worker_program).await?;
            remote::make_worker_volume(&self.engine, worker).await?;
            let own = remote::volumes(id);
            let mounts = own.iter().map(|(name, inside)| spec::volume(name, inside, true));
            return Ok(mounts.chain([remote::worker_mount(worker)]).collect());
        }
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let fixed = |source: &Path, target: &str| {
            spec::bind(&Bind { source: text(source), target: target.to_owned(), writable: false })
        };
        let mut mounts = vec![
            fixed(&places.path(shim::DOOR_DIR), DOOR_DIR_INSIDE),
            fixed(&self.options.worker_program, WORKER_INSIDE),
        ];
        for (name, target) in [(shim::WORKSPACE_DIR, WORKSPACE_INSIDE), (shim::HOME_DIR, HOME_INSIDE)] {
            mounts.push(own_place(places, name, target, request)?);
        }
        mounts.extend(request.binds.iter().map(spec::bind));
        Ok(mounts)
    }

    /// Answers once it is over. Its disk is looked at meanwhile, where nothing else bounds it.
    pub(super) async fn wait_for_end(&self, id: &SandboxId) -> Result<Exit, Error> {
        let limit = self.places(id).wanted()?.and_then(|wanted| wanted.limits.disk_bytes);
        let mut judge = disk::Judge::default();
        loop {
            match self.status_of(id).await? {
                Status::Exited(exit) => return Ok(exit),
                Status::Lost => return Err(Error::Lost(id.clone())),
                Status::Absent => return Err(Error::NotFound(id.clone())),
                Status::Prepared => return Err(Error::NotStarted(id.clone())),
                Status::Running => {}
            }
            let sampled = !self.options.remote && !self.places(id).path(disk::IMAGE_FILE).exists();
            if let Some(limit) = limit.filter(|_| sampled) {
                let _ = timeout(LOOK, self.next_end(id)).await;
                self.end_if_too_big(id, limit, &mut judge).await?;
            } else {
                self.next_end(id).await;
            }
        }
    }

    async fn status_of(&self, id: &SandboxId) -> Result<Status, Error> {
        self.look(id).await
    }

    /// Returns when the daemon says that something ended, or says nothing more.
    async fn next_end(&self, id: &SandboxId) {
        if let Ok(docker) = self.engine.docker().await {
            let options = WaitContainerOptionsBuilder::new().condition("not-running").build();
            let mut ends = pin!(docker.wait_container(&spec::name(id), Some(options)));
            // A daemon that restarts ends the stream at once: what is so is asked either way.
            let told = matches!(
                ends.next().await,
                Some(Ok(_) | Err(bollard::errors::Error::DockerContainerWaitError { .. }))
            );
            if told {
                return;
            }
        }
        tokio::time::sleep(super::POLL * 10).await;
    }
}

/// One of the sandbox's own directories, over what is laid under it.
fn own_place(places: &Places, name: &str, target: &str, request: &StartRequest) -> Result<Mount, Error> {
    let own = places.own(name).to_string_lossy().into_owned();
    let lower: Vec<&str> = request
        .layers
        .iter()
        .filter(|layer| layer.target == target)
        .map(|layer| layer.source.as_str())
        .collect();
    if lower.is_empty() {
        return Ok(spec::bind(&Bind { source: own, target: target.to_owned(), writable: true }));
    }
    if lower.iter().chain([&own.as_str()]).any(|path| path.contains([',', ':', '\\'])) {
        return Err(Error::Unsupported(format!(
            "{own}: a layered path may not hold a comma, colon or backslash"
        )));
    }
    let work = places.work_of(name);
    crate::local::owner::create_private_dir(&work)
        .map_err(Error::backend("make a layer's scratch directory"))?;
    Ok(spec::overlay(&lower, &own, &work.to_string_lossy(), target))
}

/// What the daemon counted.
pub(super) fn use_of(stats: &ContainerStatsResponse) -> ResourceUse {
    let memory = stats.memory_stats.as_ref();
    let used = memory.and_then(|memory| memory.usage).unwrap_or_default();
    // Pages of files that can be given back at once are not counted.
    let cache = memory.and_then(|memory| {
        let stats = memory.stats.as_ref()?;
        stats.get("total_inactive_file").or_else(|| stats.get("inactive_file")).copied()
    });
    let now = used.saturating_sub(cache.unwrap_or_default());
    let peak = memory.and_then(|memory| memory.max_usage).unwrap_or_default();
    let cpu = stats.cpu_stats.as_ref().and_then(|cpu| cpu.cpu_usage.as_ref()).and_then(|cpu| cpu.total_usage);
    ResourceUse {
        memory_bytes: now,
        memory_peak_bytes: peak.max(now),
        cpu_ms: cpu.unwrap_or_default() / 1_000_000,
        pids: stats.pids_stats.as_ref().and_then(|pids| pids.current).unwrap_or_default(),
        disk_bytes: 0,
    }
}
