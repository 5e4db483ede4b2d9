//! What every handler can reach.

use std::ops::Deref;
use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusHandle;
use sunaba_nodes::Nodes;
use sunaba_secrets::Secrets;
use sunaba_store::Store;
use sunaba_types::Clock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::TokenCache;
use crate::expiry::Expiry;
use crate::extract::BodyBudget;
use crate::layers::rate::RateLimits;
use crate::liveness::Liveness;
use crate::providers::Providers;
use crate::room::Room;
use crate::{
    BlobFiles, BusReport, FileSource, HomeDuties, Hub, LiveUsage, LogSource, ProviderReports, ReadyCheck,
    ServerConfig, Tunnels,
};

/// What a server is composed of.
#[derive(Debug)]
pub struct Parts {
    /// The rows.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where blobs are kept.
    pub blobs: BlobFiles,
    /// What is set.
    pub config: ServerConfig,
    /// The files of sandboxes; none when this node holds no repositories.
    pub files: Option<Arc<dyn FileSource>>,
    /// What sandboxes printed; none when this node holds no sandboxes.
    pub logs: Option<Arc<dyn LogSource>>,
    /// What running sandboxes use; none when this node holds no sandboxes.
    pub usage: Option<Arc<dyn LiveUsage>>,
    /// What providers can do; without it nothing but their names is checked.
    pub providers: Option<Arc<dyn ProviderReports>>,
    /// Where projects' secrets are kept; without it they can be neither set nor used.
    pub secrets: Option<Secrets>,
    /// This node and what it knows of the others; without it this server is alone.
    pub nodes: Option<Nodes>,
    /// What this node does for the projects whose mirrors it has; none when it holds no repositories.
    pub home: Option<Arc<dyn HomeDuties>>,
    /// Where hints and frames for outside subscribers go; none without Redis.
    pub bus: Option<Arc<dyn BusReport>>,
    /// What a backup has in it; none when this node has no files.
    pub backup: Option<sunaba_backup::Parts>,
    /// Parts that `/readyz` asks besides the store and the feed.
    pub ready_checks: Vec<Arc<dyn ReadyCheck>>,
    /// Numbers for `/metrics`; see [`crate::telemetry::install`].
    pub metrics: Option<PrometheusHandle>,
    /// Ends live streams and long polls.
    pub shutdown: CancellationToken,
}

impl Parts {
    /// The parts every server has; the rest can be set on the fields.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        blobs: BlobFiles,
        config: ServerConfig,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            store,
            clock,
            blobs,
            config,
            files: None,
            logs: None,
            usage: None,
            providers: None,
            secrets: None,
            nodes: None,
            home: None,
            bus: None,
            backup: None,
            ready_checks: Vec::new(),
            metrics: None,
            shutdown,
        }
    }
}

/// A cheap handle on everything a handler needs.
#[derive(Debug, Clone)]
pub struct AppState(Arc<Inner>);

/// See [`AppState`].
#[derive(Debug)]
pub struct Inner {
    /// What the server is composed of.
    pub parts: Parts,
    /// Live events and wake-ups.
    pub hub: Hub,
    /// The tunnels of sandboxes on other machines.
    pub tunnels: Tunnels,
    pub(crate) tokens: TokenCache,
    pub(crate) rates: RateLimits,
    pub(crate) bodies: BodyBudget,
    pub(crate) room: Room,
    /// Who was heard.
    pub liveness: Liveness,
    pub(crate) providers: Providers,
    pub(crate) tasks: TaskTracker,
    /// One backup at a time.
    pub(crate) backups: Arc<Semaphore>,
}

impl AppState {
    /// Puts the parts together; nothing runs yet.
    pub fn new(parts: Parts) -> Self {
        let hub = Hub::new(Arc::clone(&parts.store), parts.config.live);
        Self(Arc::new(Inner {
            hub,
            tunnels: Tunnels::default(),
            tokens: TokenCache::new(Arc::clone(&parts.store), Arc::clone(&parts.clock)),
            rates: RateLimits::new(parts.config.limits),
            bodies: BodyBudget::new(parts.config.limits.body_bytes),
            room: Room::new(parts.config.room, parts.blobs.root().to_owned()),
            liveness: Liveness::new(Arc::clone(&parts.store), Arc::clone(&parts.clock)),
            providers: Providers::new(parts.providers.clone()),
            tasks: TaskTracker::new(),
            backups: Arc::new(Semaphore::new(1)),
            parts,
        }))
    }

    /// Starts the feed's tailer and the upkeep of caches; they end with the shutdown token.
    pub fn spawn_background(&self) {
        let inner = &self.0;
        inner.parts.blobs.remove_unfinished();
        // A server without nodes has nobody to tell how its loops fare.
        let loops = inner.parts.nodes.as_ref().map(|nodes| nodes.loops().clone()).unwrap_or_default();
        inner.tasks.spawn(inner.hub.clone().run(loops.clone(), inner.parts.shutdown.clone()));
        inner.tasks.spawn(inner.liveness.clone().run(inner.parts.shutdown.clone()));
        let expiry = Expiry::new(Arc::clone(&inner.parts.store), Arc::clone(&inner.parts.clock));
        inner.tasks.spawn(expiry.run(loops, inner.parts.shutdown.clone()));
        let (blobs, store) = (inner.parts.blobs.clone(), Arc::clone(&inner.parts.store));
        inner.tasks.spawn(blobs.sweep_now_and_then(store, inner.parts.shutdown.clone()));
        inner.tasks.spawn(inner.rates.clone().run(inner.parts.shutdown.clone()));
    }

    /// Waits until background work and live connections have ended, after the shutdown token was cancelled.
    pub async fn drained(&self) {
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    /// The rows.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.parts.store
    }

    /// What is set.
    pub fn config(&self) -> &ServerConfig {
        &self.0.parts.config
    }

    /// Ends live streams and long polls.
    pub fn shutdown(&self) -> &CancellationToken {
        &self.0.parts.shutdown
    }
}

impl Deref for AppState {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
