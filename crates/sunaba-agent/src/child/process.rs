//! One process of an agent's program, its pipes and its end.

use std::collections::VecDeque;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::family::Family;
use super::lines::{self, Read};
use crate::{ErrorClass, RunError};

/// Lines on their way to the program. It reads all the time: one that lets so many lie is stuck.
const UNREAD_MAX: usize = 1024;
const STDERR_TAIL_BYTES: usize = 4096;
/// How long the pipes of an ended process are read, in case something else still holds them.
const STDERR_WAIT: Duration = Duration::from_millis(500);
/// How long a killed process may take to be gone.
const KILL_WAIT: Duration = Duration::from_secs(2);

pub(crate) struct Process {
    child: Child,
    stdin: Option<mpsc::Sender<Vec<u8>>>,
    lines: mpsc::Receiver<Read>,
    stderr: Option<JoinHandle<String>>,
    pub(crate) family: Family,
}

impl Process {
    /// Starts it. The command's environment already has the family's mark.
    pub(crate) fn start(mut command: Command, mut family: Family) -> std::io::Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        family.led_by(child.id());
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(std::io::Error::other("the program was started without its pipes"));
        };
        let (sender, receiver) = mpsc::channel(UNREAD_MAX);
        tokio::spawn(write(stdin, receiver));
        Ok(Self {
            child,
            stdin: Some(sender),
            lines: lines::read(stdout),
            stderr: Some(tokio::spawn(tail(stderr))),
            family,
        })
    }

    pub(crate) fn send(&self, line: &Value) -> Result<(), RunError> {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        let taken = self.stdin.as_ref().map(|stdin| stdin.try_send(bytes));
        match taken {
            Some(Err(mpsc::error::TrySendError::Full(_))) => {
                Err(failed(format!("the program has not read its last {UNREAD_MAX} lines")))
            }
            // Closed: it has ended or is ending, which its output will tell.
            _ => Ok(()),
        }
    }

    /// The next line of its output; none when there will be no more. Safe to drop at any point.
    pub(crate) async fn next_line(&mut self) -> Option<Read> {
        self.lines.recv().await
    }

    /// Lets it end by itself and ends it if it does not; nothing that it started is left.
    pub(crate) async fn finish(&mut self, patience: Duration) {
        self.stdin = None;
        self.ended_within(patience).await;
    }

    /// Ends it: SIGINT, and SIGKILL when that does not help in time.
    pub(crate) async fn end(&mut self, grace: Duration) {
        self.stdin = None;
        self.family.signal(Signal::SIGINT);
        self.ended_within(grace).await;
    }

    async fn ended_within(&mut self, patience: Duration) {
        let Self { child, lines, .. } = self;
        let ended = async {
            // Somebody has to read what it still says, or it waits for that.
            while lines.recv().await.is_some() {}
            child.wait().await
        };
        if timeout(patience, ended).await.is_err() {
            self.family.signal(Signal::SIGKILL);
        }
        self.gone().await;
    }

    /// What is known of an end that nobody wanted.
    pub(crate) async fn post_mortem(&mut self) -> (Option<ExitStatus>, String) {
        self.stdin = None;
        let status = match timeout(KILL_WAIT, self.child.wait()).await {
            Ok(status) => status.ok(),
            // It closed its output and lives on: of no use to anybody.
            Err(_) => None,
        };
        self.gone().await;
        let last_words = match self.stderr.take() {
            Some(reading) => {
                timeout(STDERR_WAIT, reading).await.ok().and_then(Result::ok).unwrap_or_default()
            }
            None => String::new(),
        };
        (status, last_words)
    }

    async fn gone(&mut self) {
        self.family.kill_all();
        // A process that the kernel cannot end is nothing that more waiting here would help.
        let _ = timeout(KILL_WAIT, self.child.wait()).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.family.kill_all();
    }
}

fn failed(message: String) -> RunError {
    RunError { class: ErrorClass::Crashed, message }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Reads to the end and gives the last of it.
async fn tail(mut stderr: ChildStderr) -> String {
    let mut kept = VecDeque::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        kept.extend(&buffer[..read]);
        let beyond = kept.len().saturating_sub(STDERR_TAIL_BYTES);
        kept.drain(..beyond);
    }
    String::from_utf8_lossy(kept.make_contiguous()).trim().to_owned()
}
