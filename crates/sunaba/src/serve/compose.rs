//! Composition: which parts there are and what each is given.
//!
//! Each part gets its own piece of the configuration, never the whole tree.

use std::sync::Arc;

use futures::future::BoxFuture;
use sunaba_gateway::GatewayState;
use sunaba_git::ProjectLocks;
use sunaba_orchestrator::{Orchestrator, Shelf};
use sunaba_sandbox::Provider;
use sunaba_secrets::Secrets;
use sunaba_server::{AppState, BlobFiles, Doors, RoomLimits, ServerConfig};
use sunaba_store::Store;
use sunaba_store_postgres::SoleOrchestrator;
use sunaba_types::{Clock, Egress, SystemClock};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::gateway;
use super::providers::{self, ProviderUsage, Providers, Reports};
use super::sources::{MirrorDiffs, ProviderLogs, ServerDoors};
use super::store::{self, Opened};
use crate::client::TOKEN_FILE;
use crate::config::{AuthMode, Config};
use crate::failure::{Failure, Outcome};

/// Everything that runs.
pub(super) struct Parts {
    store: Arc<dyn Store>,
    sole: Option<SoleOrchestrator>,
    state: AppState,
    serving: BoxFuture<'static, std::io::Result<()>>,
    doors: Doors,
    gateway: GatewayState,
    orchestrator: Option<Orchestrator>,
    providers: Providers,
}

/// The parts at work.
pub(super) struct Running {
    store: Arc<dyn Store>,
    sole: Option<SoleOrchestrator>,
    state: AppState,
    doors: Doors,
    gateway: GatewayState,
    tasks: TaskTracker,
    providers: Providers,
}

impl Parts {
    /// Opens the store, brings it up to date, and puts the parts together.
    pub(super) async fn build(
        config: &Config,
        listener: TcpListener,
        stop: &CancellationToken,
    ) -> Outcome<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let Opened { store, sole } = store::open(config, &clock).await?;
        // Redis joins here: its hints would wake this store's readers.
        if config.redis_url.is_some() {
            tracing::warn!(
                "redis_url is set, but this version does not use Redis; all goes through the database"
            );
        }
        sunaba_server::auth::ensure_admin_token(&*store, &config.data_dir.join(TOKEN_FILE))
            .await
            .map_err(|error| Failure::Other(error.into()))?;

        let secrets = gateway::secrets(config, &store).await?;
        let git_root = config.data_dir.join("git");
        std::fs::create_dir_all(&git_root)?;
        let blobs = BlobFiles::new(config.data_dir.join("blobs"));
        let locks = Arc::new(ProjectLocks::default());
        let providers = providers::compose(config)?;
        let gateway =
            gateway::gateway(config, &store, &clock, &blobs, &locks, &secrets, git_root.clone()).await?;

        let mut parts = sunaba_server::Parts::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            blobs,
            server_config(config, &providers),
            stop.clone(),
        );
        parts.diffs = Some(Arc::new(MirrorDiffs { git_root }));
        parts.logs = Some(Arc::new(ProviderLogs { providers: providers.clone() }));
        parts.usage = Some(Arc::new(ProviderUsage(providers.clone())));
        parts.providers = Some(Arc::new(Reports {
            providers: providers.clone(),
            data_dir: config.data_dir.clone(),
            docker_is_remote: config.docker.remote,
        }));
        parts.secrets = Some(secrets.clone());
        parts.metrics = Some(sunaba_server::telemetry::install());
        let state = AppState::new(parts);
        let gateway_routes = sunaba_gateway::router(gateway.clone());
        let router = sunaba_server::app(state.clone(), Some(gateway_routes));
        let doors = Doors::new(router.clone(), stop.clone()).with_egress(gateway::egress(config, &store)?);
        state.tunnels.lead_to(doors.clone());
        let ways = ServerDoors { doors: doors.clone(), tunnels: state.tunnels.clone() };

        let orchestrator = config.roles.orchestrator.then(|| {
            say_isolation(&providers);
            orchestrator(config, &store, clock, &ways, locks, providers.clone(), secrets)
        });
        let serving = Box::pin(sunaba_server::serve(listener, router, stop.clone()));
        Ok(Self { store, sole, state, serving, doors, gateway, orchestrator, providers })
    }

    /// Sets the parts to work.
    pub(super) fn start(self, stop: &CancellationToken) -> Running {
        let Self { store, sole, state, serving, doors, gateway, orchestrator, providers } = self;
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
        Running { store, sole, state, doors, gateway, tasks, providers }
    }
}

impl Running {
    /// Waits until everything has stopped, after the stop token was cancelled. The store is closed before the
    /// providers take back what no sandbox needs: that may take a moment.
    pub(super) async fn stopped(self) {
        self.tasks.wait().await;
        self.doors.drained().await;
        self.gateway.drain().await;
        self.state.drained().await;
        drop(self.sole);
        self.store.close().await;
        for (name, provider) in &self.providers {
            if let Err(error) = provider.close().await {
                tracing::warn!(provider = name, %error, "something that no sandbox needs stays behind");
            }
        }
    }
}

fn server_config(config: &Config, providers: &Providers) -> ServerConfig {
    ServerConfig {
        auth: match config.auth {
            AuthMode::Required => sunaba_server::AuthMode::Required,
            AuthMode::Off => sunaba_server::AuthMode::Off,
        },
        serves_api: config.roles.api,
        auto_register_sandboxes: config.auto_register_sandboxes,
        default_provider: config.sandbox.provider.clone(),
        providers: providers.keys().cloned().chain(["external".to_owned()]).collect(),
        default_runtime: config.sandbox.runtime.clone(),
        default_model: config.default_model(),
        default_resources: config.sandbox.resources,
        default_isolation: config.sandbox.isolation,
        default_budget_usd: config.sandbox.budget_usd,
        default_timeout_seconds: config.sandbox.timeout_seconds,
        // A toolchain must never show a sandbox the server's own data.
        protected_paths: vec![config.data_dir.clone()],
        room: RoomLimits { disk_free_bytes: disk_free_bytes(config), ..RoomLimits::default() },
        ..ServerConfig::default()
    }
}

fn orchestrator(
    config: &Config,
    store: &Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ways: &ServerDoors,
    git_locks: Arc<ProjectLocks>,
    providers: Providers,
    secrets: Secrets,
) -> Orchestrator {
    let settings = orchestrator_settings(config);
    Orchestrator::new(sunaba_orchestrator::Parts {
        store: Arc::clone(store),
        providers,
        doors: Arc::new(ways.clone()),
        clock,
        mint_token: sunaba_server::auth::mint_sandbox,
        shelf: Shelf::new(settings.layers_root.clone()),
        settings,
        git_locks,
        secrets: Some(secrets),
    })
}

/// The free disk below which nothing more is kept.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a checked amount of disk; a float's cast saturates"
)]
pub(super) fn disk_free_bytes(config: &Config) -> u64 {
    (config.orchestrator.disk_free_gb * 1_073_741_824.0) as u64
}

fn orchestrator_settings(config: &Config) -> sunaba_orchestrator::Settings {
    let set = &config.orchestrator;
    sunaba_orchestrator::Settings {
        public_url: config.public_url.clone(),
        public_url_ca: config.public_url_ca.clone(),
        default_egress: Egress { preset: config.egress.default, allow: Vec::new() },
        root_fs: config.sandbox.root_fs.as_ref().map(|path| path.to_string_lossy().into_owned()),
        pids: config.sandbox.pids,
        disk_free_bytes: disk_free_bytes(config),
        max_sandboxes: usize::try_from(set.max_sandboxes).unwrap_or(usize::MAX),
        heartbeat_seconds: u64::from(set.heartbeat_seconds),
        max_turns: set.max_turns,
        ..sunaba_orchestrator::Settings::new(config.data_dir.clone())
    }
}

/// Says in the log what this host can enforce; a host that cannot isolate still serves sandboxes of others.
/// Beside the start: looking may take longer than a start should.
fn say_isolation(providers: &Providers) {
    for provider in providers.values().cloned() {
        tokio::spawn(async move {
            let name = provider.name();
            match Provider::isolation(&*provider).await {
                Ok(isolation) => {
                    tracing::info!(provider = name, level = %isolation.level(), "sandboxes can be isolated");
                }
                Err(error) => tracing::warn!(
                    provider = name, %error, "no sandbox can be started; `sunaba doctor` says what to do"
                ),
            }
        });
    }
}
