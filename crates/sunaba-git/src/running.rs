//! A git that runs, what it may use, and how it is ended when nobody waits for it any more.
//!
//! Git takes its `*.lock` files along when it is asked to end, and leaves them
//! behind when it is killed. So it is asked first. It leads a group of its own, so
//! that the programs it starts end with it.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, prlimit};
use tokio::process::Child;
use tokio::runtime::Handle;

/// How long git may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// A child that leads its own group and was started to be killed on drop, asked to end before that.
#[derive(Debug)]
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn new(child: Child) -> Self {
        Self(Some(child))
    }

    /// Bounds the memory of git and of every program that it starts from now on. For objects that a sandbox made:
    /// a few bytes can unfold into any amount. What is mapped from packs does not count, so large repositories work.
    pub(crate) fn bound_memory(&self, bytes: u64) -> std::io::Result<()> {
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        match self.group().and_then(|group| rustix::process::Pid::from_raw(group.as_raw())) {
            Some(pid) => Ok(prlimit(Some(pid), Resource::Data, limit).map(drop)?),
            None => Ok(()),
        }
    }

    /// None once it was waited for: the number may be another's by then.
    fn group(&self) -> Option<Pid> {
        let pid = self.0.as_ref()?.id().and_then(|pid| i32::try_from(pid).ok())?;
        (pid > 1).then(|| Pid::from_raw(pid))
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().unwrap_or_else(|| unreachable!("the child is taken only on drop"))
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().unwrap_or_else(|| unreachable!("the child is taken only on drop"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(group) = self.group() else { return };
        let Some(child) = self.0.take() else { return };
        // Without a runtime nobody could wait; it is killed as it is dropped then.
        let Ok(runtime) = Handle::try_current() else { return };
        if killpg(group, Signal::SIGTERM).is_ok() {
            runtime.spawn(end(child, group));
        }
    }
}

/// Gives git its time, then ends whatever is left of its group. Its leader is waited for only afterwards: until
/// then its number cannot become another's.
async fn end(mut child: Child, group: Pid) {
    let deadline = tokio::time::Instant::now() + GRACE;
    while !has_ended(group) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(POLL).await;
    }
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait().await;
}

fn has_ended(pid: Pid) -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(pid), look), Ok(WaitStatus::StillAlive))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Stdio;

    use tokio::io::AsyncWriteExt as _;
    use tokio::time::{Instant, sleep};

    use crate::command::Git;

    async fn until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + std::time::Duration::from_secs(10);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_dropped_git_takes_its_locks_along() {
        let dir = tempfile::tempdir().unwrap();
        let git_dir = dir.path().join("r.git");
        Git::at(Path::new("/"), "init").args(["--quiet", "--bare"]).arg(&git_dir).bytes().await.unwrap();
        let call = Git::bare(&git_dir, "update-ref").arg("--stdin");
        let mut running = call.spawn(Stdio::piped(), Stdio::null()).unwrap();
        let orders = format!("start\nverify refs/heads/x {}\nprepare\n", "0".repeat(40));
        let mut orders_pipe = running.stdin.take().unwrap();
        orders_pipe.write_all(orders.as_bytes()).await.unwrap();
        let lock = git_dir.join("refs/heads/x.lock");
        until("git holds the lock", || lock.exists()).await;
        drop(running);
        until("the lock is gone", || !lock.exists()).await;
    }

    #[tokio::test]
    async fn what_a_dropped_git_started_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        // A program that git starts and that does not listen when it is asked to end.
        let alias = format!("!trap '' TERM; echo $$ > {}; sleep 600", pid_file.display());
        let call = Git::at(dir.path(), "stay");
        let call = call
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "alias.stay")
            .env("GIT_CONFIG_VALUE_0", &alias);
        let running = call.spawn(Stdio::null(), Stdio::null()).unwrap();
        let started = || std::fs::read_to_string(&pid_file).is_ok_and(|text| text.ends_with('\n'));
        until("the program runs", started).await;
        let pid = std::fs::read_to_string(&pid_file).unwrap().trim().to_owned();
        drop(running);
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        until("the program is gone", gone).await;
    }
}
