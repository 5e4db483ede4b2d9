//! Composition: which parts there are and what each is given.
//!
//! Each part gets its own piece of the configuration, never the whole tree.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use sunaba_gateway::{GatewayConfig, GatewayState, Upstream};
use sunaba_git::ProjectLocks;
use sunaba_orchestrator::Orchestrator;
use sunaba_sandbox::{LocalOptions, LocalProvider, Provider};
use sunaba_server::{AppState, BlobFiles, Doors, ServerConfig};
use sunaba_store::Store;
use sunaba_store_sqlite::{Options, SqliteStore};
use sunaba_types::{Clock, SystemClock};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::sources::{BlobScripts, MirrorDiffs, ProviderLogs, ServerDoors};
use super::worker_program;
use crate::client::TOKEN_FILE;
use crate::config::{AuthMode, Config};
use crate::failure::{Failure, Outcome};

/// Everything that runs.
pub(super) struct Parts {
    store: Arc<dyn Store>,
    state: AppState,
    serving: BoxFuture<'static, std::io::Result<()>>,
    doors: Doors,
    gateway: GatewayState,
    orchestrator: Option<Orchestrator>,
}

/// The parts at work.
pub(super) struct Running {
    store: Arc<dyn Store>,
    state: AppState,
    doors: Doors,
    gateway: GatewayState,
    tasks: TaskTracker,
}

impl Parts {
    /// Opens the store, brings it up to date, and puts the parts together.
    pub(super) async fn build(
        config: &Config,
        listener: TcpListener,
        stop: &CancellationToken,
    ) -> Outcome<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let store = open_store(config, &clock).await?;
        sunaba_server::auth::ensure_admin_token(&*store, &config.data_dir.join(TOKEN_FILE))
            .await
            .map_err(|error| Failure::Other(error.into()))?;

        let git_root = config.data_dir.join("git");
        std::fs::create_dir_all(&git_root)?;
        let blobs = BlobFiles::new(config.data_dir.join("blobs"));
        let locks = Arc::new(ProjectLocks::default());
        let provider = local_provider(config)?;
        let gateway = gateway(config, &store, &blobs, &locks, git_root.clone())?;

        let mut parts = sunaba_server::Parts::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            blobs,
            server_config(config),
            stop.clone(),
        );
        parts.diffs = Some(Arc::new(MirrorDiffs { git_root: git_root.clone() }));
        parts.logs = Some(Arc::new(ProviderLogs { provider: Arc::clone(&provider) }));
        parts.metrics = Some(sunaba_server::telemetry::install());
        let state = AppState::new(parts);
        let gateway_routes = sunaba_gateway::router(gateway.clone());
        let router = sunaba_server::app(state.clone(), Some(gateway_routes));
        let doors = Doors::new(router.clone(), stop.clone());

        let orchestrator = config.orchestrator.enabled.then(|| {
            Orchestrator::new(sunaba_orchestrator::Parts {
                store: Arc::clone(&store),
                provider: Arc::clone(&provider),
                doors: Arc::new(ServerDoors(doors.clone())),
                clock,
                mint_token: sunaba_server::auth::mint_sandbox,
                settings: orchestrator_settings(config, git_root),
                git_locks: locks,
            })
        });
        if orchestrator.is_some() {
            say_isolation(&*provider).await;
        }
        let serving = Box::pin(sunaba_server::serve(listener, router, stop.clone()));
        Ok(Self { store, state, serving, doors, gateway, orchestrator })
    }

    /// Sets the parts to work.
    pub(super) fn start(self, stop: &CancellationToken) -> Running {
        let Self { store, state, serving, doors, gateway, orchestrator } = self;
        let tasks = TaskTracker::new();
        state.spawn_background();
        tasks.spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the listener failed");
            }
        });
        if let Some(orchestrator) = orchestrator {
            tasks.spawn(orchestrator.run(stop.clone()));
        }
        tasks.close();
        Running { store, state, doors, gateway, tasks }
    }
}

impl Running {
    /// Waits until everything has stopped, after the stop token was cancelled. The store is last.
    pub(super) async fn stopped(self) {
        self.tasks.wait().await;
        self.doors.drained().await;
        self.gateway.drain().await;
        self.state.drained().await;
        self.store.close().await;
    }
}

async fn open_store(config: &Config, clock: &Arc<dyn Clock>) -> Outcome<Arc<dyn Store>> {
    let path = config.database_file();
    let store: Arc<dyn Store> = SqliteStore::open(Options::new(path, Arc::clone(clock)))
        .await
        .map_err(|error| Failure::Other(error.into()))?;
    Ok(store)
}

fn server_config(config: &Config) -> ServerConfig {
    ServerConfig {
        auth: match config.auth {
            AuthMode::Required => sunaba_server::AuthMode::Required,
            AuthMode::Off => sunaba_server::AuthMode::Off,
        },
        auto_register_sandboxes: config.auto_register_sandboxes,
        default_provider: config.sandbox.provider.clone(),
        providers: vec!["local".to_owned(), "external".to_owned()],
        default_runtime: config.sandbox.runtime.clone(),
        default_model: config.default_model(),
        default_resources: config.sandbox.resources,
        // A toolchain must never show a sandbox the server's own data.
        protected_paths: vec![config.data_dir.clone()],
        ..ServerConfig::default()
    }
}

fn gateway(
    config: &Config,
    store: &Arc<dyn Store>,
    blobs: &BlobFiles,
    locks: &Arc<ProjectLocks>,
    git_root: PathBuf,
) -> Outcome<GatewayState> {
    GatewayState::new(GatewayConfig {
        store: Arc::clone(store),
        git_root,
        locks: Arc::clone(locks),
        scripts: Arc::new(BlobScripts(blobs.clone())),
        anthropic: Upstream {
            base_url: config.anthropic.base_url.clone(),
            api_key: config.anthropic.api_key.clone(),
        },
    })
    .map_err(|error| Failure::Other(error.into()))
}

fn local_provider(config: &Config) -> Outcome<Arc<dyn Provider>> {
    let worker_program = worker_program::locate(config.sandbox.worker_program.as_deref(), &config.data_dir)?;
    let provider = LocalProvider::new(LocalOptions {
        root: config.data_dir.join("sandboxes"),
        logs: config.data_dir.join("output"),
        worker_program,
    });
    Ok(Arc::new(provider.map_err(|error| Failure::Other(error.into()))?))
}

fn orchestrator_settings(config: &Config, git_root: PathBuf) -> sunaba_orchestrator::Settings {
    let set = &config.orchestrator;
    sunaba_orchestrator::Settings {
        max_sandboxes: usize::try_from(set.max_sandboxes).unwrap_or(usize::MAX),
        heartbeat_seconds: u64::from(set.heartbeat_seconds),
        max_turns: set.max_turns,
        ..sunaba_orchestrator::Settings::new(git_root)
    }
}

/// Says what this host can enforce; a host that cannot isolate still serves sandboxes of others.
async fn say_isolation(provider: &dyn Provider) {
    match provider.isolation().await {
        Ok(isolation) => tracing::info!(level = %isolation.level(), "local sandboxes can be isolated"),
        Err(error) => tracing::warn!(%error, "local sandboxes cannot be started on this host"),
    }
}
