//! How much one sandbox may push in all, and whether the disk has room for more.
//!
//! A mirror keeps what was pushed to it for good, on the server's disk, where a sandbox's own limit does not reach.
//! The counts are in memory: they begin anew with the server.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::statvfs::statvfs;
use sunaba_types::{Sandbox, SandboxId};

const GIB: f64 = 1_073_741_824.0;

/// What sandboxes have pushed, and how much they may.
#[derive(Debug, Clone)]
pub struct PushRoom {
    /// With less free disk than this no push is taken.
    pub disk_free_bytes: u64,
    /// How often over a sandbox may push as much as its own disk holds.
    pub disks: f64,
    pushed: Arc<Mutex<HashMap<SandboxId, u64>>>,
}

impl Default for PushRoom {
    fn default() -> Self {
        Self { disk_free_bytes: 0, disks: 2.0, pushed: Arc::default() }
    }
}

impl PushRoom {
    /// Whether the disk has room; the error is for the agent to read and act on.
    pub(super) fn check_disk(&self, dir: &Path) -> Result<(), String> {
        // A disk that cannot be asked says nothing against a push: git itself will.
        let free =
            statvfs(dir).ok().and_then(|disk| disk.blocks_available().checked_mul(disk.fragment_size()));
        match free {
            Some(free) if free < self.disk_free_bytes => Err(format!(
                "the server's disk has {:.1} GiB free, less than the {:.1} GiB that are kept back; nothing is \
                 wrong with the push: go on working and push again later (an operator makes room, or lowers \
                 orchestrator.disk_free_gb)",
                gib(free),
                gib(self.disk_free_bytes)
            )),
            _ => Ok(()),
        }
    }

    /// How much a sandbox may still push.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an amount of disk; a float's cast saturates"
    )]
    pub(super) fn left(&self, sandbox: &Sandbox) -> u64 {
        let pushed = self.pushed.lock().unwrap_or_else(PoisonError::into_inner);
        let most = (sandbox.resources.disk_gb * self.disks * GIB) as u64;
        most.saturating_sub(pushed.get(&sandbox.id).copied().unwrap_or_default())
    }

    /// What a push of more than is left is told.
    pub(super) fn too_much(&self, sandbox: &Sandbox) -> String {
        format!(
            "this sandbox may push {:.2} GiB in all and has {:.2} GiB left, which is less than this push takes; \
             leave large files out (git rm --cached FILE, add them to .gitignore, git commit --amend) and push again",
            sandbox.resources.disk_gb * self.disks,
            gib(self.left(sandbox))
        )
    }

    /// Counts what git took.
    pub(super) fn count(&self, id: &SandboxId, bytes: u64) {
        let mut pushed = self.pushed.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = pushed.entry(id.clone()).or_default();
        *sum = sum.saturating_add(bytes);
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with few decimals")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB
}
