//! This server as a node: who it is, how it finds the others, what it does for them.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use sunaba_nodes::wire::{Ground, Published};
use sunaba_nodes::{Heart, Nodes};
use sunaba_orchestrator::Home;
use sunaba_secrets::SecretKey;
use sunaba_server::{DutyError, HomeDuties};
use sunaba_store::Store;
use sunaba_types::{NodeReport, Role, SandboxId};

use super::compose::Basis;
use super::providers::Providers;
use crate::config::{Config, Database};
use crate::failure::{Failure, Outcome};

/// What the token between nodes is derived for.
const PURPOSE: &str = "token between nodes";

/// This node, and how it asks the others.
pub(super) fn nodes(config: &Config, store: &Arc<dyn Store>, key: &SecretKey) -> Outcome<Nodes> {
    let id =
        sunaba_nodes::read_or_make_id(&config.data_dir).map_err(|error| Failure::other(error.to_string()))?;
    Nodes::new(id, Arc::clone(store), key.derive(PURPOSE)).map_err(|error| Failure::Other(error.into()))
}

/// Where other nodes reach this one. "Every address" is none to ask at, and only the operator knows the right one.
pub(super) fn address(config: &Config, listens: SocketAddr) -> Outcome<String> {
    match &config.node_address {
        Some(address) => Ok(address.clone()),
        None if matches!(config.database, Database::Postgres(_)) && listens.ip().is_unspecified() => {
            Err(Failure::usage(format!(
                "this server listens on every address ({listens}); say with --node-address (SUNABA_NODE_ADDRESS) \
                 under which one the other servers of the database reach it, for example http://10.0.0.5:{}",
                listens.port()
            )))
        }
        None => Ok(format!("http://{}", super::reachable(listens))),
    }
}

/// Enters the node, with what it says of itself; refuses to be a second one.
pub(super) async fn enter(basis: &Basis<'_>, address: String, providers: &Providers) -> Outcome<Heart> {
    let config = basis.config;
    let roles = [(Role::Api, config.roles.api), (Role::Orchestrator, config.roles.orchestrator)];
    let report = NodeReport {
        id: basis.nodes.me().clone(),
        instance: sunaba_nodes::new_instance(),
        host: sunaba_nodes::host(),
        address,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        roles: roles.into_iter().filter(|(_, has)| *has).map(|(role, _)| role).collect(),
        providers: providers.keys().cloned().collect(),
        max_sandboxes: i64::from(config.orchestrator.max_sandboxes),
        loops: Value::Object(Default::default()),
        started_at: basis.clock.now(),
    };
    Heart::enter(basis.nodes.clone(), report).await.map_err(|error| Failure::Other(error.into()))
}

/// What this node does for the projects whose mirrors it has.
#[derive(Debug)]
pub(super) struct Duties(pub(super) Home);

#[async_trait]
impl HomeDuties for Duties {
    async fn lay_ground(&self, sandbox: &SandboxId) -> Result<Ground, DutyError> {
        self.0.lay_ground(sandbox).await.map_err(duty)
    }

    async fn publish(&self, sandbox: &SandboxId) -> Result<Published, DutyError> {
        self.0.publish(sandbox).await.map_err(duty)
    }
}

/// A store that is away or a mirror that others use passes; anything else is the answer.
fn duty(error: sunaba_orchestrator::Error) -> DutyError {
    use sunaba_orchestrator::Error as E;
    match error {
        E::Store(sunaba_store::Error::Unavailable(_)) | E::Git(sunaba_git::Error::Busy { .. }) => {
            DutyError::Passing(error.to_string())
        }
        other => DutyError::Refused(other.to_string()),
    }
}
