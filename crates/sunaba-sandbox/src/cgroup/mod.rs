//! Control groups: one per sandbox in every hierarchy that holds something of use.
//!
//! Hosts are hybrid, so each controller is looked for on its own, in version 1
//! and version 2 hierarchies alike, and only what a try has shown to work is
//! used. Every group of one server lies below a group that is named after the
//! server's directory, so that leftovers are found by name and no stranger's
//! group is ever touched.

mod find;
mod group;
mod mounts;
mod own;

pub use find::{Seen, find, look};
pub use group::Groups;
pub use mounts::View;
pub use own::{leftovers, remove_empty};

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a hierarchy is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Controller {
    /// Limits memory.
    Memory,
    /// Limits processor time.
    Cpu,
    /// Limits processes and threads.
    Pids,
    /// Counts processor time.
    Account,
    /// Ends every process at once.
    Kill,
}

/// Which interface a hierarchy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// The unified one.
    V2,
}

/// A hierarchy in which groups can be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchy {
    /// Its interface.
    pub version: Version,
    /// The group below which this server's own is made.
    pub base: PathBuf,
    /// What works in it; with nothing it only keeps the shim apart from the server.
    pub controllers: Vec<Controller>,
}

impl Hierarchy {
    /// Whether this is where a controller is.
    pub fn has(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }
}

/// A short name for a server's directory, the same after a restart.
pub fn tag(root: &Path) -> String {
    // FNV-1a: the name must stay the same with every compiler, which std's hasher does not promise.
    let hash = root.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("sunaba-{hash:016x}")
}
