//! A process group: everything that a command started and that did not leave it on purpose.

use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the kernel may take to end what was killed.
const KILL_WAIT: Duration = Duration::from_millis(500);

/// Kills the group when dropped, unless it was forgotten.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<Pid>,
}

impl Group {
    /// The group that this process leads; it was started as a leader.
    pub(super) fn led_by(pid: u32) -> Option<Self> {
        let leader = i32::try_from(pid).ok().filter(|pid| *pid > 1)?;
        Some(Self { leader: Some(Pid::from_raw(leader)) })
    }

    /// Asks the group to end, and ends it if it has not within `grace`.
    pub(super) async fn end(&self, child: &mut Child, grace: Duration) {
        self.signal(Signal::SIGINT);
        if timeout(grace, self.gone(child)).await.is_err() {
            self.signal(Signal::SIGKILL);
            // A process that the kernel cannot end is nothing that more waiting here would help.
            let _ = timeout(KILL_WAIT, self.gone(child)).await;
        }
    }

    /// Nothing is to be signalled under this number any more.
    pub(super) fn forget(mut self) {
        self.leader = None;
    }

    async fn gone(&self, child: &mut Child) {
        // First the leader: until it is waited for, the group exists.
        let _ = child.wait().await;
        while self.lives() {
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Whether any of them still runs. One that only waits to be reaped, by whoever that is left to, does not.
    fn lives(&self) -> bool {
        self.leader.is_some_and(|leader| killpg(leader, None).is_ok() && has_living(leader))
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // The only failure is that nobody is left, which is what is wanted.
            let _ = killpg(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

fn has_living(group: Pid) -> bool {
    let Ok(entries) = std::fs::read_dir("/proc") else { return true };
    let stats = entries.flatten().filter_map(|entry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        std::fs::read_to_string(entry.path().join("stat")).ok()
    });
    let group = group.as_raw().to_string();
    let mut living = stats.filter(|stat| {
        // The name is in brackets and may hold anything; state, parent and group follow the last one.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        !matches!(fields.first(), Some(&("Z" | "X"))) && fields.get(2) == Some(&group.as_str())
    });
    living.next().is_some()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn what_only_waits_to_be_reaped_does_not_live() {
        let mut child = Command::new("sleep").arg("300").process_group(0).spawn().unwrap();
        let group = Group::led_by(child.id()).unwrap();
        assert!(group.lives());
        group.signal(Signal::SIGKILL);
        let ended = async {
            while group.lives() {
                sleep(POLL_INTERVAL).await;
            }
        };
        timeout(Duration::from_secs(10), ended).await.expect("nobody has reaped it, and it counts as gone");
        assert!(killpg(group.leader.unwrap(), None).is_ok(), "it is still there to be reaped");
        child.wait().unwrap();
        group.forget();
    }
}
