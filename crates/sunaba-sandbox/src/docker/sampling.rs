//! What a container's directories hold, where no file system of their own bounds it.

use sunaba_types::SandboxId;

use super::DockerProvider;
use crate::{Error, Status, disk};

impl DockerProvider {
    /// Ends a container that holds more than it may, or hides what it holds.
    pub(super) async fn end_if_too_big(
        &self,
        id: &SandboxId,
        limit: u64,
        judge: &mut disk::Judge,
    ) -> Result<(), Error> {
        let measured = self.measured(id).await;
        if !judge.is_too_much(&measured, limit) || self.look(id).await? != Status::Running {
            return Ok(());
        }
        self.places(id).note_ended_for("disk")?;
        self.signal(id, "SIGKILL").await.map(drop)
    }

    /// What lies in the sandbox's own directories on this host; nothing is known of another.
    pub(super) async fn disk_use(&self, id: &SandboxId) -> u64 {
        if self.options.remote {
            return 0;
        }
        // A tree too large to be counted is too large.
        self.measured(id).await.map_or(0, |seen| if seen.beyond { u64::MAX } else { seen.bytes })
    }

    async fn measured(&self, id: &SandboxId) -> std::io::Result<disk::Measured> {
        let (places, own) = (self.places(id), self.own_processes(id).await);
        let counting = tokio::task::spawn_blocking(move || {
            let dir = places.layout.disk();
            if places.path(disk::IMAGE_FILE).exists() {
                return Ok(disk::Measured { bytes: disk::used_bytes(&dir)?, ..disk::Measured::default() });
            }
            let named = disk::measure(&dir)?;
            Ok(disk::Measured { bytes: named.bytes + disk::deleted_bytes(&dir, &own)?, ..named })
        });
        counting.await.map_err(std::io::Error::other)?
    }

    /// The container's processes where this host shows them: a daemon may number processes as another host does.
    async fn own_processes(&self, id: &SandboxId) -> Vec<i32> {
        let Ok(Some(container)) = self.inspect(id).await else { return Vec::new() };
        let first = container.state.and_then(|state| state.pid).and_then(|pid| i32::try_from(pid).ok());
        let (Some(first), Some(name)) = (first.filter(|pid| *pid > 0), container.id) else {
            return Vec::new();
        };
        let group = std::fs::read_to_string(format!("/proc/{first}/cgroup")).unwrap_or_default();
        if !group.contains(&name) {
            return Vec::new();
        }
        let mut all = crate::process::descendants(first);
        all.push(first);
        all
    }
}
