//! How much one sandbox may have the server keep for it, and whether the disk has room for more at all.
//!
//! A sandbox's own disk is limited where it runs. What it hands over (blobs, events) lies on the server's disk, so
//! it is counted here. The counts are in memory: they begin anew with the server.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use nix::sys::statvfs::statvfs;
use sunaba_types::{Sandbox, SandboxId};

use crate::{ApiError, RoomLimits};

const GIB: f64 = 1_073_741_824.0;

/// A disk of which some is kept free.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    /// Lies on the disk that is asked.
    dir: PathBuf,
    free_bytes: u64,
}

impl Disk {
    pub(crate) const fn new(dir: PathBuf, free_bytes: u64) -> Self {
        Self { dir, free_bytes }
    }

    /// Whether there is room for more; else what to say.
    pub(crate) fn check(&self) -> Result<(), String> {
        // A disk that cannot be asked says nothing against a try: the try itself will.
        let Some(free) = free_bytes(&self.dir) else { return Ok(()) };
        if free >= self.free_bytes {
            return Ok(());
        }
        Err(format!(
            "the server's disk has {:.1} GiB free, less than the {:.1} GiB that are kept back \
             (orchestrator.disk_free_gb); try again when there is room",
            gib(free),
            gib(self.free_bytes)
        ))
    }
}

/// What sandboxes have handed over.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    limits: RoomLimits,
    disk: Disk,
    blobs: Arc<Mutex<HashMap<SandboxId, u64>>>,
    logs: Arc<Mutex<HashMap<SandboxId, u64>>>,
}

impl Room {
    pub(crate) fn new(limits: RoomLimits, dir: PathBuf) -> Self {
        let disk = Disk::new(dir, limits.disk_free_bytes);
        Self { limits, disk, blobs: Arc::default(), logs: Arc::default() }
    }

    /// Whether the disk has room for more.
    pub(crate) fn check_disk(&self) -> Result<(), ApiError> {
        self.disk
            .check()
            .map_err(|detail| ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", detail))
    }

    /// A share of the room for one blob. What belongs to no sandbox is bounded by the disk alone.
    pub(crate) fn share(&self, owner: Option<&Sandbox>) -> Result<Share, ApiError> {
        self.check_disk()?;
        let owner = owner.map(|sandbox| (sandbox.id.clone(), self.most(sandbox)));
        Ok(Share { room: self.clone(), owner, taken: 0 })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an amount of disk; a float's cast saturates"
    )]
    fn most(&self, sandbox: &Sandbox) -> u64 {
        (sandbox.resources.disk_gb * self.limits.blob_disks * GIB) as u64
    }

    /// A blob of a sandbox is gone.
    pub(crate) fn give_back(&self, id: &SandboxId, bytes: u64) {
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = blobs.get_mut(id) {
            *held = held.saturating_sub(bytes);
        }
    }

    /// Whether so many bytes more may be written to a sandbox's log.
    pub(crate) fn check_log(&self, id: &SandboxId, bytes: u64) -> Result<(), ApiError> {
        let logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let written = logs.get(id).copied().unwrap_or_default();
        if written.saturating_add(bytes) <= self.limits.log_bytes {
            return Ok(());
        }
        let detail = format!(
            "this sandbox has written {:.1} GiB of events, as much as one may ({:.1} GiB); no more are recorded",
            gib(written),
            gib(self.limits.log_bytes)
        );
        Err(ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "log_full", detail))
    }

    /// Counts what was written to a sandbox's log.
    pub(crate) fn count_log(&self, id: &SandboxId, bytes: u64) {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let written = logs.entry(id.clone()).or_default();
        *written = written.saturating_add(bytes);
    }
}

/// What one blob takes while it arrives; given back unless it is kept.
#[derive(Debug)]
pub(crate) struct Share {
    room: Room,
    /// Whose it is, and how much that one may have in all.
    owner: Option<(SandboxId, u64)>,
    taken: u64,
}

impl Share {
    /// Takes more, if there is room.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), ApiError> {
        self.room.check_disk()?;
        let Some((id, most)) = &self.owner else { return Ok(()) };
        let mut blobs = self.room.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        let held = blobs.entry(id.clone()).or_default();
        if held.saturating_add(bytes) > *most {
            let detail = format!(
                "the blobs of this sandbox would take more than the {:.1} GiB that it may have the server keep; \
                 store less",
                gib(*most)
            );
            return Err(ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "blobs_full", detail));
        }
        *held += bytes;
        self.taken += bytes;
        Ok(())
    }

    /// The bytes are on the disk and stay there.
    pub(crate) fn keep(mut self) {
        self.taken = 0;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some((id, _)) = &self.owner else { return };
        let mut blobs = self.room.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = blobs.get_mut(id) {
            *held = held.saturating_sub(self.taken);
        }
    }
}

/// What is free where a directory is, or will be made.
fn free_bytes(dir: &Path) -> Option<u64> {
    let disk = dir.ancestors().find_map(|dir| statvfs(dir).ok())?;
    disk.blocks_available().checked_mul(disk.fragment_size())
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(limits: RoomLimits) -> Room {
        Room::new(limits, std::env::temp_dir().join("not/made/yet"))
    }

    #[test]
    fn below_the_watermark_nothing_is_taken() {
        let full = room(RoomLimits { disk_free_bytes: u64::MAX, ..RoomLimits::default() });
        assert_eq!(full.share(None).unwrap_err().code(), "disk_full");
        let mut share = room(RoomLimits::default()).share(None).unwrap();
        assert!(share.take(u64::MAX).is_ok(), "an operator's blob is bounded by the disk alone");
        share.room = full;
        assert_eq!(share.take(1).unwrap_err().code(), "disk_full", "asked again while it arrives");
    }

    #[test]
    fn a_log_is_bounded_for_each_sandbox() {
        let room = room(RoomLimits { log_bytes: 100, ..RoomLimits::default() });
        let (one, other) = (SandboxId::generate(), SandboxId::generate());
        room.check_log(&one, 100).unwrap();
        room.count_log(&one, 60);
        assert_eq!(room.check_log(&one, 41).unwrap_err().status(), StatusCode::INSUFFICIENT_STORAGE);
        room.check_log(&one, 40).unwrap();
        room.check_log(&other, 100).unwrap();
    }
}
