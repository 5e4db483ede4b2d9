//! Redis, if there is one: frames for programs outside, and wake-ups between servers.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use sunaba_bus::{Handle, RedisUrl, Service};
use sunaba_server::BusReport;
use sunaba_store::Store;

use crate::failure::{Failure, Outcome};

/// How Redis fares, for people.
#[derive(Debug)]
pub(super) struct Fares(Handle);

impl BusReport for Fares {
    fn report(&self) -> Value {
        let status = self.0.status();
        json!({
            "connected": status.connected, "leads": status.leads, "published": status.published,
            "behind": status.behind, "last_error": status.last_error,
        })
    }
}

/// The bus and how it is asked. A Redis that is away stops nothing: it is tried again for as long as the server
/// runs.
pub(super) fn bus(url: &SecretString, store: &Arc<dyn Store>) -> Outcome<(Service, Fares)> {
    let url = RedisUrl::parse(url.expose_secret());
    let url = url.map_err(|error| Failure::usage(format!("redis_url: {error}")))?;
    let (service, handle) = Service::new(sunaba_bus::Config::new(url), Arc::clone(store));
    Ok((service, Fares(handle)))
}
