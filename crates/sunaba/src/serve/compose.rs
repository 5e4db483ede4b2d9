//! Composition: which parts there are and what each is given.
//!
//! Each part gets its own piece of the configuration, never the whole tree.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use sunaba_gateway::GatewayState;
use sunaba_nodes::{Heart, Nodes, Taken};
use sunaba_orchestrator::{Home, Orchestrator, Shelf};
use sunaba_sandbox::Provider;
use sunaba_secrets::Secrets;
use sunaba_server::{AppState, BlobFiles, Doors, MirrorFiles, ProviderReports, RoomLimits, ServerConfig};
use sunaba_store::Store;
use sunaba_types::{Clock, Egress, ExecutionConfig, SystemClock};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::elsewhere::AnyNode;
use super::node::{self, Duties};
use super::providers::{self, ProviderUsage, Providers, Reports};
use super::sources::{ProviderLogs, ServerDoors};
use super::{gateway, store};
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
    orchestrator: Orchestrator,
    providers: Providers,
    heart: Heart,
    bus: Option<sunaba_bus::Service>,
}

/// The parts at work.
pub(super) struct Running {
    store: Arc<dyn Store>,
    state: AppState,
    doors: Doors,
    gateway: GatewayState,
    tasks: TaskTracker,
    providers: Providers,
    heart: JoinHandle<Result<(), Taken>>,
}

/// What the parts stand on.
pub(super) struct Basis<'a> {
    pub(super) config: &'a Config,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) store: Arc<dyn Store>,
    pub(super) secrets: Secrets,
    pub(super) nodes: Nodes,
    pub(super) blobs: BlobFiles,
    pub(super) home: Home,
    providers: Providers,
}

impl<'a> Basis<'a> {
    /// Opens the store and brings it up to date, and what is kept beside it.
    async fn open(config: &'a Config) -> Outcome<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let store = store::open(config, &clock).await?;
        sunaba_server::auth::ensure_admin_token(&*store, &config.data_dir.join(TOKEN_FILE))
            .await
            .map_err(|error| Failure::Other(error.into()))?;
        let key = gateway::key(config)?;
        let secrets = gateway::secrets(&key, &store).await?;
        let nodes = node::nodes(config, &store, &key)?;
        let git_root = config.data_dir.join("git");
        std::fs::create_dir_all(&git_root)?;
        let home = Home {
            store: Arc::clone(&store),
            git_root,
            git_locks: Arc::default(),
            secrets: Some(secrets.clone()),
            git_patience: sunaba_orchestrator::Settings::new(config.data_dir.clone()).git_patience,
        };
        let blobs = BlobFiles::new(config.data_dir.join("blobs"));
        let blobs = blobs.with_nodes(nodes.clone(), disk_free_bytes(config));
        Ok(Self { config, clock, store, secrets, nodes, blobs, home, providers: providers::compose(config)? })
    }

    /// What the server is made of.
    fn server(&self, stop: &CancellationToken) -> sunaba_server::Parts {
        let (config, nodes, providers) = (self.config, &self.nodes, &self.providers);
        let mut parts = sunaba_server::Parts::new(
            Arc::clone(&self.store),
            Arc::clone(&self.clock),
            self.blobs.clone(),
            server_config(config, providers),
            stop.clone(),
        );
        let mirrors = MirrorFiles { git_root: self.home.git_root.clone() };
        parts.files = Some(Arc::new(AnyNode { nodes: nodes.clone(), here: mirrors }));
        let output = ProviderLogs { providers: providers.clone() };
        parts.logs = Some(Arc::new(AnyNode { nodes: nodes.clone(), here: output }));
        let usage = ProviderUsage(providers.clone());
        parts.usage = Some(Arc::new(AnyNode { nodes: nodes.clone(), here: usage }));
        // What this host can do says nothing about sandboxes that only others start.
        parts.providers = config.roles.orchestrator.then(|| -> Arc<dyn ProviderReports> {
            Arc::new(Reports {
                providers: providers.clone(),
                data_dir: config.data_dir.clone(),
                docker_is_remote: config.docker.remote,
            })
        });
        parts.secrets = Some(self.secrets.clone());
        parts.nodes = Some(nodes.clone());
        parts.home = Some(Arc::new(Duties(self.home.clone())));
        parts.backup = Some(sunaba_backup::Parts {
            store: Arc::clone(&self.store),
            blobs: config.data_dir.join("blobs"),
            mirrors: self.home.git_root.clone(),
            locks: Arc::clone(&self.home.git_locks),
            node_id: Some(nodes.me().to_string()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        });
        parts.metrics = Some(sunaba_server::telemetry::install());
        parts
    }

    fn orchestrator(&self, ways: &ServerDoors) -> Orchestrator {
        let settings = orchestrator_settings(self.config);
        Orchestrator::new(sunaba_orchestrator::Parts {
            store: Arc::clone(&self.store),
            providers: self.providers.clone(),
            doors: Arc::new(ways.clone()),
            clock: Arc::clone(&self.clock),
            mint_token: sunaba_server::auth::mint_sandbox,
            shelf: Shelf::new(settings.layers_root.clone()),
            settings,
            nodes: self.nodes.clone(),
            home: self.home.clone(),
        })
    }
}

impl Parts {
    /// Opens the store, brings it up to date, and puts the parts together.
    pub(super) async fn build(
        config: &Config,
        listener: TcpListener,
        stop: &CancellationToken,
    ) -> Outcome<Self> {
        let basis = Basis::open(config).await?;
        let address = node::address(config, listener.local_addr()?)?;
        // Before anything of an earlier process is looked at: it is this node's now.
        let heart = node::enter(&basis, address, &basis.providers).await?;
        let gateway = gateway::gateway(&basis).await?;
        let mut server = basis.server(stop);
        let mut bus = None;
        if let Some(url) = &config.redis_url {
            let (service, fares) = super::bus::bus(url, &basis.store)?;
            server.bus = Some(Arc::new(fares));
            bus = Some(service);
        }
        let state = AppState::new(server);
        let app = sunaba_server::app(state.clone(), Some((&gateway).into()));
        let egress = gateway::egress(config, &basis.store)?;
        let doors = Doors::new(app.clone(), stop.clone()).with_egress(egress);
        state.tunnels.lead_to(doors.clone());
        let ways = ServerDoors {
            doors: doors.clone(),
            tunnels: state.tunnels.clone(),
            liveness: state.liveness.clone(),
        };
        if config.roles.orchestrator {
            say_isolation(&basis.providers);
        }
        let orchestrator = basis.orchestrator(&ways);
        let serving = Box::pin(sunaba_server::serve(listener, app, stop.clone()));
        let Basis { store, providers, .. } = basis;
        Ok(Self { store, state, serving, doors, gateway, orchestrator, providers, heart, bus })
    }

    /// Sets the parts to work.
    pub(super) fn start(self, stop: &CancellationToken) -> Running {
        let Self { store, state, serving, doors, gateway, orchestrator, providers, heart, bus } = self;
        let tasks = TaskTracker::new();
        state.spawn_background();
        tasks.spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the listener failed");
            }
        });
        tasks.spawn(orchestrator.run(stop.clone()));
        if let Some(bus) = bus {
            tasks.spawn(bus.run(stop.clone()));
        }
        let heart = tasks.spawn(heart.run(stop.clone()));
        tasks.close();
        Running { store, state, doors, gateway, tasks, providers, heart }
    }
}

impl Running {
    /// Waits until this process may not go on: another one has taken its place as a node, or a newer program its
    /// store.
    pub(super) async fn overtaken(&mut self) -> Taken {
        match (&mut self.heart).await {
            Ok(Err(taken)) => taken,
            // It ends by itself only when everything is told to stop.
            _ => std::future::pending().await,
        }
    }

    /// Waits until everything has stopped, after the stop token was cancelled. The store is closed before the
    /// providers take back what no sandbox needs: that may take a moment.
    pub(super) async fn stopped(self) {
        self.tasks.wait().await;
        self.doors.drained().await;
        self.gateway.drain().await;
        self.state.drained().await;
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
        default_execution_config: default_execution(config),
        // A toolchain must never show a sandbox the server's own data.
        protected_paths: vec![config.data_dir.clone()],
        room: RoomLimits { disk_free_bytes: disk_free_bytes(config), ..RoomLimits::default() },
        ..ServerConfig::default()
    }
}

/// How agents work unless somebody says otherwise.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a checked number of minutes; a float's cast saturates"
)]
fn default_execution(config: &Config) -> ExecutionConfig {
    ExecutionConfig {
        permission_mode: Some(config.sandbox.permission_mode),
        question_hold_seconds: Some((config.questions.hold_minutes * 60.0).round() as u32),
        question_policy: Some(config.questions.policy),
        ..ExecutionConfig::default()
    }
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
        // A server that had the role and lost it still ends well what it began.
        takes_up: config.roles.orchestrator,
        disk_free_bytes: disk_free_bytes(config),
        max_sandboxes: usize::try_from(set.max_sandboxes).unwrap_or(usize::MAX),
        heartbeat_seconds: u64::from(set.heartbeat_seconds),
        max_turns: set.max_turns,
        follow_up: Duration::from_secs_f64(set.follow_up_minutes * 60.0),
        node_lost_after: Duration::from_secs(u64::from(set.node_lost_minutes) * 60),
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
