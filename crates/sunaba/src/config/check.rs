//! What no single key can say: which settings do not go together.

use std::collections::BTreeMap;

use super::tree::{AuthMode, Config, Database};
use super::{Origin, Value};

/// Adds a line for every combination that cannot be.
pub(super) fn across(config: &Config, values: &BTreeMap<&'static str, Value>, problems: &mut Vec<String>) {
    let origin = |key: &str| values.get(key).map_or(Origin::Default, |value| value.origin.clone());
    if config.auth == AuthMode::Off && !config.listen.ip().is_loopback() {
        problems.push(format!(
            "{}: auth: \"off\" is only possible on a loopback address, and the server would listen on {} ({}); \
             use auth \"required\", or listen on 127.0.0.1",
            origin("auth"),
            config.listen,
            origin("listen"),
        ));
    }
    if config.docker.remote && config.has_docker() && config.public_url.is_none() {
        problems.push(format!(
            "{}: docker.remote: sandboxes on another machine reach this server by its public address; set \
             public_url (--public-url https://…)",
            origin("docker.remote"),
        ));
    }
    if config.docker.network.is_some() && !config.docker.remote {
        problems.push(format!(
            "{}: docker.network: containers on this host have no network at all; leave it out, or set \
             docker.remote if the daemon is on another machine",
            origin("docker.network"),
        ));
    }
    if config.secrets.key.is_some() && config.secrets.key_file.is_some() {
        problems.push(format!(
            "{}: secrets.key_file: the key is given twice; leave out this or secrets.key ({})",
            origin("secrets.key_file"),
            origin("secrets.key"),
        ));
    }
    let has_key = config.secrets.key.is_some() || config.secrets.key_file.is_some();
    if matches!(config.database, Database::Postgres(_)) && !has_key {
        problems.push(format!(
            "{}: database_url: PostgreSQL needs the key that seals projects' secrets, the same one for every \
             server of the database: make one with `openssl rand -base64 32`, keep it, and set SUNABA_SECRET_KEY \
             to it (or SUNABA_SECRET_KEY_FILE to a file that holds it)",
            origin("database_url"),
        ));
    }
}

/// Refuses what gives the role `orchestrator` with one hand and takes it with the other.
pub(super) fn roles(
    given: bool,
    config: &Config,
    values: &BTreeMap<&'static str, Value>,
    problems: &mut Vec<String>,
) {
    let Some(named) = values.get("roles").filter(|value| value.origin != Origin::Default) else { return };
    if given && !config.orchestrator.enabled {
        let taken = values.get("orchestrator.enabled").map_or(Origin::Default, |value| value.origin.clone());
        problems.push(format!(
            "{}: roles: {:?} names the role orchestrator, which {taken} takes away; leave out one of the two",
            named.origin, named.text,
        ));
    }
}
