//! Which providers this server has, and what they can do here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use sunaba_sandbox::{DockerOptions, DockerProvider, LocalOptions, LocalProvider, Provider};
use sunaba_server::{AgentProgram, LiveUsage, ProviderReport, ProviderReports, SourceError};
use sunaba_types::shim::ResourceUse;
use sunaba_types::{BlobHash, Resources, Sandbox, agents};

use super::worker_program;
use crate::config::{Config, Database};
use crate::failure::{Failure, Outcome};

/// The providers by name.
pub(crate) type Providers = BTreeMap<String, Arc<dyn Provider>>;

/// Makes the providers that the configuration names. None is asked for anything yet.
pub(crate) fn compose(config: &Config) -> Outcome<Providers> {
    let worker_program = worker_program::locate(config.sandbox.worker_program.as_deref(), &config.data_dir)?;
    let mut all: Vec<Arc<dyn Provider>> = Vec::new();
    let local = LocalProvider::new(LocalOptions {
        root: config.data_dir.join("sandboxes"),
        logs: config.data_dir.join("output"),
        worker_program: worker_program.clone(),
    });
    all.push(Arc::new(local.map_err(|error| Failure::Other(error.into()))?));
    if config.has_docker() {
        let docker = DockerProvider::new(DockerOptions {
            host: config.docker.host.clone(),
            remote: config.docker.remote,
            root: config.data_dir.join("containers"),
            logs: config.data_dir.join("output"),
            worker_program,
            default_image: config.sandbox.image.clone(),
            instance: instance(config)?,
            network: config.docker.network.clone(),
        });
        all.push(Arc::new(docker.map_err(|error| Failure::Other(error.into()))?));
    }
    Ok(all.into_iter().map(|provider| (provider.name().to_owned(), provider)).collect())
}

/// What containers of this data directory are told apart by.
fn instance(config: &Config) -> Outcome<String> {
    let data_dir = &config.data_dir;
    let whole = std::fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.clone());
    let mut name = whole.as_os_str().as_encoded_bytes().to_vec();
    if matches!(config.database, Database::Postgres(_)) {
        // Servers on several machines have equal paths, and may share a daemon.
        let node =
            sunaba_nodes::read_or_make_id(data_dir).map_err(|error| Failure::other(error.to_string()))?;
        name.extend_from_slice(node.as_str().as_bytes());
    }
    Ok(BlobHash::of(&name).as_str()[..16].to_owned())
}

/// What the providers can do, for the server.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) providers: Providers,
    /// Whose disk the sandboxes of this host are on.
    pub(crate) data_dir: std::path::PathBuf,
    /// Whether containers are on another machine.
    pub(crate) docker_is_remote: bool,
}

#[async_trait]
impl ProviderReports for Reports {
    async fn report(&self) -> Vec<ProviderReport> {
        let mut reports = Vec::new();
        for (name, provider) in &self.providers {
            let report = provider.report().await;
            let here = name != "docker" || !self.docker_is_remote;
            reports.push(ProviderReport {
                name: name.clone(),
                available: report.isolation.is_some(),
                isolation: report.isolation,
                capacity: here.then(|| capacity(&self.data_dir)).flatten(),
                findings: report.findings,
                // What an image holds is seen by its sandboxes alone.
                agents: (name == "local").then(agents_here),
            });
        }
        reports
    }
}

/// The agents that sandboxes of this host find.
fn agents_here() -> Vec<AgentProgram> {
    let found = agents::KNOWN.iter().filter_map(|agent| {
        let found = sunaba_sandbox::find_inside(agent.program()?, agent.package, agent.origin)?;
        Some(AgentProgram { agent: agent.name, version: found.version, problem: found.problem })
    });
    found.collect()
}

/// The most that one sandbox on this host can ever get.
#[expect(
    clippy::cast_precision_loss,
    reason = "amounts of memory and disk, compared with what people ask for"
)]
fn capacity(data_dir: &Path) -> Option<Resources> {
    const GIB: f64 = 1_073_741_824.0;
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let memory_kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let disk = nix::sys::statvfs::statvfs(data_dir).ok()?;
    Some(Resources {
        memory_gb: memory_kib as f64 * 1024.0 / GIB,
        cpu: std::thread::available_parallelism().ok()?.get() as f64,
        disk_gb: disk.blocks() as f64 * disk.fragment_size() as f64 / GIB,
    })
}

/// What running sandboxes use comes from their providers.
#[derive(Debug)]
pub(super) struct ProviderUsage(pub(super) Providers);

#[async_trait]
impl LiveUsage for ProviderUsage {
    async fn usage(&self, sandbox: &Sandbox) -> Result<ResourceUse, SourceError> {
        let provider = self
            .0
            .get(&sandbox.provider)
            .ok_or_else(|| SourceError::Absent("this sandbox runs elsewhere".to_owned()))?;
        provider.usage(&sandbox.id).await.map_err(|error| SourceError::Failed(Box::new(error)))
    }
}
