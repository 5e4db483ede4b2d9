//! What no single key can say: which settings do not go together.

use std::collections::BTreeMap;

use super::tree::{AuthMode, Config};
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
}
