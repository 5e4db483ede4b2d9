//! A git that runs, and how it is ended when nobody waits for it any more.
//!
//! Git takes its `*.lock` files along when it is asked to end, and leaves them
//! behind when it is killed. So it is asked first.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::runtime::Handle;

/// How long git may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);

/// A child that was started to be killed on drop, asked to end before that.
#[derive(Debug)]
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn new(child: Child) -> Self {
        Self(Some(child))
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
        let Some(mut child) = self.0.take() else { return };
        // None once it was waited for: the number may be another's by then.
        let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 1) else {
            return;
        };
        // Without a runtime nobody could wait; it is killed as it is dropped then.
        let Ok(runtime) = Handle::try_current() else { return };
        if kill(Pid::from_raw(pid), Signal::SIGTERM).is_ok() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(GRACE, child.wait()).await;
            });
        }
    }
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
}
