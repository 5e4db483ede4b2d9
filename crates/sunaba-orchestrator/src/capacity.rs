//! Whether there is room for one more sandbox.

use std::path::Path;

use crate::Settings;

/// Why a sandbox waits; nothing is wrong with it.
pub(crate) fn lack(settings: &Settings, living: usize) -> Option<String> {
    if living >= settings.max_sandboxes {
        return Some(format!(
            "{living} sandboxes live on this machine, as many as may (orchestrator.max_sandboxes)"
        ));
    }
    // A disk that cannot be asked says nothing against a start: the start itself will.
    let free = free_bytes(&settings.data_dir)?;
    (free < settings.disk_free_bytes).then(|| {
        format!(
            "the disk of {} has {:.1} GiB free, less than the {:.1} GiB that are kept back \
             (orchestrator.disk_free_gb)",
            settings.data_dir.display(),
            gib(free),
            gib(settings.disk_free_bytes)
        )
    })
}

fn free_bytes(dir: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(dir).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_and_too_little_disk_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings { disk_free_bytes: 0, ..Settings::new(dir.path().to_owned()) };
        assert_eq!(lack(&settings, 199), None);
        assert!(lack(&settings, 200).unwrap().contains("max_sandboxes"));
        settings.disk_free_bytes = u64::MAX;
        assert!(lack(&settings, 0).unwrap().contains("disk_free_gb"));
    }
}
