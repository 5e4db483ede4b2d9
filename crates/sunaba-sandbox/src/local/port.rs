//! The provider port, answered.

use async_trait::async_trait;
use sunaba_types::SandboxId;
use sunaba_types::shim::{self, Exit, Reply, Request};
use tokio::time::{sleep, timeout};

use super::files::{self, Inside};
use super::layout::OWNER_FILE;
use super::{
    LocalProvider, POLL, STATUS_TIMEOUT, blocking, control, exec, list_directories, read_first_that_exists,
    shim_lives, through,
};
use crate::{
    CreateRequest, Error, ExecRequest, ExecResult, Isolation, Prepared, Provider, Report, ResourceUse,
    StartRequest, Status, cgroup, probe, process,
};

#[async_trait]
impl Provider for LocalProvider {
    fn name(&self) -> &'static str {
        "local"
    }

    async fn create(&self, id: &SandboxId, request: &CreateRequest) -> Result<Prepared, Error> {
        self.make(id, request).await
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Prepared>, Error> {
        match self.owner(id) {
            // Made again: after a restart of the machine its disk has to be mounted anew.
            Ok(_) => self.make(id, &CreateRequest { limits: self.limits(id)?, image: None }).await.map(Some),
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
        self.end(id).await
    }

    async fn delete(&self, id: &SandboxId) -> Result<(), Error> {
        self.end_and_remove(id).await
    }

    async fn list(&self) -> Result<Vec<SandboxId>, Error> {
        let hierarchies = self.means().await.hierarchies.clone();
        let (root, disks) = (self.options.root.clone(), self.disks());
        blocking(move || {
            let mut found = list_directories(&root).map_err(Error::backend("list the sandboxes"))?;
            // A group or a disk without a directory is what a removal that was cut off left.
            let mut names = cgroup::leftovers(&hierarchies, &cgroup::tag(&root));
            names.extend(disks.names());
            found.extend(names.iter().filter_map(|name| SandboxId::parse(name.as_str()).ok()));
            found.sort();
            found.dedup();
            Ok(found)
        })
        .await
    }

    async fn output(&self, id: &SandboxId, offset: u64, limit: usize) -> Result<Vec<u8>, Error> {
        let places = [self.layout(id).path(shim::OUTPUT_FILE), self.log_path(id)];
        blocking(move || {
            read_first_that_exists(&places, offset, limit).map_err(Error::backend("read the output"))
        })
        .await
    }

    async fn exec(&self, id: &SandboxId, request: ExecRequest) -> Result<ExecResult, Error> {
        let owner = self.owner(id)?;
        self.require_running(id).await?;
        exec::exec(&self.layout(id).dir, id, owner.uid, request).await
    }

    async fn write_file(&self, id: &SandboxId, path: &str, content: &[u8], mode: u32) -> Result<(), Error> {
        let (owner, path) = (self.owner(id)?, Inside::parse(path)?);
        if self.must_ask_inside(id, &path).await? {
            return through::write(self, id, &path, content, mode).await;
        }
        let (disk, content) = (self.layout(id).disk(), content.to_owned());
        blocking(move || files::write(&disk, &path, &content, mode, owner.uid)).await
    }

    async fn read_file(&self, id: &SandboxId, path: &str, limit: usize) -> Result<Vec<u8>, Error> {
        let path = Inside::parse(path)?;
        self.owner(id)?;
        if self.must_ask_inside(id, &path).await? {
            return through::read(self, id, &path, limit).await;
        }
        let disk = self.layout(id).disk();
        blocking(move || files::read(&disk, &path, limit)).await
    }

    async fn usage(&self, id: &SandboxId) -> Result<ResourceUse, Error> {
        self.require_running(id).await?;
        match timeout(STATUS_TIMEOUT, control::ask(&self.layout(id).dir, &Request::Usage)).await {
            Ok(Ok(Reply::Usage(used))) => Ok(used),
            Ok(Ok(Reply::Refused { error })) => Err(Error::Refused(error)),
            Ok(Ok(_)) => Err(Error::AlreadyEnded(id.clone())),
            Ok(Err(error)) => Err(Error::backend("ask the shim what the sandbox uses")(error)),
            Err(_) => Err(Error::Timeout {
                id: id.clone(),
                what: "measuring what it uses",
                seconds: STATUS_TIMEOUT.as_secs(),
            }),
        }
    }

    async fn report(&self) -> Report {
        let nothing = || Report { isolation: None, findings: Vec::new() };
        let (isolation, root) = (self.probe_isolation().await, self.options.root.clone());
        let _under_way = self.looks.token();
        if self.looks.is_closed() {
            return nothing();
        }
        // Goes on when nobody waits for it any more, so that it removes what it made.
        let look = self.looks.spawn(async move {
            let unusable = isolation.as_ref().err();
            let findings = probe::findings(&probe::Host::default(), &root, unusable).await;
            Report { isolation: isolation.ok(), findings }
        });
        look.await.unwrap_or_else(|_| nothing())
    }

    async fn isolation(&self) -> Result<Isolation, Error> {
        self.isolation.get_or_try_init(|| self.probe_isolation()).await.cloned()
    }

    async fn close(&self) -> Result<(), Error> {
        self.take_back().await
    }
}
