//! Runs the repository's check and sees how it ends.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

/// Of the check's output, what the agent is told: the end, where failures are.
const OUTPUT_BYTES: usize = 4 * 1024;
const READ_BYTES: usize = 8 * 1024;
/// Once it is over: how long its pipes are read, in case something else still holds them.
const DRAIN_WAIT: Duration = Duration::from_millis(500);

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Check {
    /// Nobody ran it.
    NotRun,
    Passed,
    Failed {
        how: String,
        output: String,
    },
}

impl Check {
    /// Runs a command in a process group of its own; nothing of it is left.
    pub(super) async fn run(command: &str, dir: &Path, patience: Duration) -> Self {
        let failed = |how: String, output: String| Self::Failed { how, output };
        let started = Command::new("sh")
            .args(["-c", command])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => return failed(format!("could not be started: {error}"), String::new()),
        };
        let _group = Group(child.id().and_then(|pid| i32::try_from(pid).ok()));
        let (mut out, mut err) = (Tail::default(), Tail::default());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let ended = {
            let mut reading = std::pin::pin!(async { tokio::join!(out.read(stdout), err.read(stderr)) });
            let mut is_read = false;
            let ended = timeout(patience, async {
                tokio::select! {
                    status = child.wait() => status,
                    _ = &mut reading => {
                        is_read = true;
                        child.wait().await
                    }
                }
            })
            .await;
            if !is_read {
                let _ = timeout(DRAIN_WAIT, reading).await;
            }
            ended
        };
        let output = format!("{}{}", out.text(), err.text());
        match ended {
            Ok(Ok(status)) if status.success() => Self::Passed,
            Ok(Ok(status)) => failed(format!("ended with {status}"), output),
            Ok(Err(error)) => failed(format!("was lost: {error}"), output),
            Err(_) => failed(format!("took longer than {} s", patience.as_secs()), output),
        }
    }
}

/// Ends what is left of a group.
struct Group(Option<i32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0.filter(|leader| *leader > 1) {
            // The only failure is that nobody is left, which is what is wanted.
            let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
    }
}

/// The end of a stream.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; READ_BYTES];
        while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
            self.0.extend_from_slice(&buffer[..read]);
            self.0.drain(..self.0.len().saturating_sub(OUTPUT_BYTES));
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn only_an_exit_with_0_is_a_pass() {
        let here = tempfile::tempdir().unwrap();
        assert_eq!(Check::run("test -d .", here.path(), LONG).await, Check::Passed);
        let failed = Check::run("seq 100000; echo the end; exit 3", here.path(), LONG).await;
        let Check::Failed { how, output } = failed else { panic!("{failed:?}") };
        assert!(how.contains("exit status: 3") && output.ends_with("the end\n"), "{how}: {output}");
        assert!(output.len() <= OUTPUT_BYTES);
        let late = Check::run("sleep 300", here.path(), Duration::from_millis(50)).await;
        assert!(matches!(&late, Check::Failed { how, .. } if how.contains("longer than")), "{late:?}");
        // What it leaves behind holds its pipes, and holds up nobody.
        assert_eq!(Check::run("sleep 300 & true", here.path(), LONG).await, Check::Passed);
    }
}
