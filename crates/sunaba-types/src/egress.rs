//! What a project lets its sandboxes reach. Whether a host is let through is decided in `sunaba-engine`.

use serde::{Deserialize, Serialize};

use crate::state::wire_enum;

wire_enum!(
    /// How much of the network is open before `allow` is looked at.
    EgressPreset {
        /// Nothing.
        None => "none",
        /// Public package registries.
        Registries => "registries",
        /// Every public address.
        Open => "open",
    }
);

/// A project's egress policy, or the one a sandbox got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Egress {
    /// What is open.
    #[serde(default = "nothing")]
    pub preset: EgressPreset,
    /// Hosts that are open besides: `example.org`, `*.example.org`, each with `:port` or without
    /// (without: 80 and 443).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
}

const fn nothing() -> EgressPreset {
    EgressPreset::None
}

impl Default for Egress {
    fn default() -> Self {
        Self { preset: EgressPreset::None, allow: Vec::new() }
    }
}
