//! What the gateway is given: models and their prices, secrets, the way out.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sunaba_gateway::{Egress, EgressSettings, GatewayConfig, GatewayState, PriceTable, Upstream};
use sunaba_secrets::{SecretKey, Secrets, Vault};
use sunaba_server::{BoxedStream, StreamHandler};
use sunaba_store::Store;
use sunaba_types::SandboxId;

use super::compose::Basis;
use super::sources::BlobScripts;
use crate::config::{Config, ModelConfig};
use crate::failure::{Failure, Outcome};

/// Largest price list that is read, in bytes.
const PRICES_MAX_BYTES: u64 = 4 * 1024 * 1024;
/// The key's file in the data directory.
const KEY_FILE: &str = "secret.key";

/// The key of this server, and of all others on the same database.
pub(super) fn key(config: &Config) -> Outcome<SecretKey> {
    let key = match (&config.secrets.key, &config.secrets.key_file) {
        (Some(text), _) => SecretKey::parse(text, "SUNABA_SECRET_KEY"),
        (None, Some(path)) => SecretKey::read(path),
        (None, None) => SecretKey::read_or_make(&config.data_dir.join(KEY_FILE)),
    };
    key.map_err(|error| Failure::other(error.to_string()))
}

/// Opens the secrets; a key that is not the one the store was first used with stops the start.
pub(super) async fn secrets(key: &SecretKey, store: &Arc<dyn Store>) -> Outcome<Secrets> {
    Secrets::open(Arc::clone(store), Vault::new(key)).await.map_err(|error| Failure::other(error.to_string()))
}

/// Makes the gateway and settles what an earlier server left open.
pub(super) async fn gateway(basis: &Basis<'_>) -> Outcome<GatewayState> {
    let Basis { config, store, clock, home, .. } = basis;
    let scripts = Arc::new(BlobScripts(basis.blobs.clone()));
    let (git_root, locks) = (home.git_root.clone(), Arc::clone(&home.git_locks));
    let mut made = GatewayConfig::new(Arc::clone(store), git_root, locks, scripts);
    made.anthropic = upstream(&config.anthropic);
    made.openai = upstream(&config.openai);
    made.google = upstream(&config.google);
    made.secrets = Some(basis.secrets.clone());
    made.nodes = Some(basis.nodes.clone());
    made.clock = Arc::clone(clock);
    made.push_room.disk_free_bytes = super::compose::disk_free_bytes(config);
    made.quota_wait_max = Duration::from_secs_f64(config.quota_wait_hours * 3600.0);
    if let Some(path) = &config.prices {
        made.prices = prices(path)?;
    }
    let state = GatewayState::new(made).map_err(|error| Failure::Other(error.into()))?;
    let settled = state.recover(clock.now()).await.map_err(|error| Failure::Other(error.into()))?;
    if settled > 0 {
        tracing::warn!(
            calls = settled,
            "settled model calls that an earlier server left open, at their reservations"
        );
    }
    Ok(state)
}

fn upstream(config: &ModelConfig) -> Upstream {
    Upstream { base_url: config.base_url.clone(), api_key: config.api_key.clone() }
}

fn prices(path: &Path) -> Outcome<PriceTable> {
    let at = path.display();
    let fault = |why: String| Failure::usage(format!("gateway.prices: {at}: {why}"));
    let size = std::fs::metadata(path).map_err(|error| fault(format!("cannot be read: {error}")))?.len();
    if size > PRICES_MAX_BYTES {
        return Err(fault(format!("has {size} bytes; a price list has at most {PRICES_MAX_BYTES}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fault(format!("cannot be read: {error}")))?;
    PriceTable::parse(&text).map_err(|error| fault(error.to_string()))
}

/// The way out of sandboxes.
pub(super) fn egress(config: &Config, store: &Arc<dyn Store>) -> Outcome<Arc<dyn StreamHandler>> {
    let entries = config.egress.private_hosts.iter().map(String::as_str);
    let private_hosts = sunaba_engine::egress::PrivateHosts::parse(entries)
        .map_err(|(entry, why)| Failure::usage(format!("egress.private_hosts: {entry:?} {why}")))?;
    let settings = EgressSettings { private_hosts, ..EgressSettings::default() };
    Ok(Arc::new(WayOut(Egress::new(Arc::clone(store), settings))))
}

/// The egress proxy behind every door.
#[derive(Debug)]
struct WayOut(Egress);

#[async_trait]
impl StreamHandler for WayOut {
    async fn handle(&self, id: SandboxId, stream: BoxedStream) {
        self.0.serve(id, stream).await;
    }

    async fn closed(&self, id: &SandboxId) {
        self.0.closed(id).await;
    }

    async fn drained(&self) {
        self.0.drained().await;
    }
}
