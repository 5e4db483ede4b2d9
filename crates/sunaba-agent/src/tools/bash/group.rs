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
        while self.exists() {
            sleep(POLL_INTERVAL).await;
        }
    }

    fn exists(&self) -> bool {
        self.leader.is_some_and(|leader| killpg(leader, None).is_ok())
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
