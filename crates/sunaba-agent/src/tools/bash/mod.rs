//! Bash: a command in a process group of its own.
//!
//! The group is ended as a whole: at the time limit, on an interrupt, and when the run is dropped. A process
//! that a finished command left in the background lives on, so that a server started in one call can be tried
//! in the next; what it writes is read and dropped, and it is killed when the run ends.

mod group;
mod relay;

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::group::Group;
use self::relay::Relay;
use super::{ToolReply, ToolResult};
use crate::{EventSink, OutputStream};

const TIMEOUT_DEFAULT_MS: u64 = 120_000;
const TIMEOUT_MAX_MS: u64 = 600_000;
const RESULT_MAX_CHARS: usize = 30_000;
const READ_BYTES: usize = 16 * 1024;
/// Once the command is over: how long its pipes may be silent before they are left to what it left behind.
const DRAIN_SILENCE: Duration = Duration::from_millis(100);
/// And how long they are read at most.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// Most background processes of earlier commands that are remembered.
const LEFTOVERS_MAX: usize = 64;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    command: String,
    #[serde(default)]
    timeout: Option<u64>,
}

pub(super) struct Bash {
    cwd: PathBuf,
    events: Arc<dyn EventSink>,
    grace: Duration,
    leftovers: Mutex<Vec<Leftover>>,
}

/// What a finished command left running; killed when dropped.
struct Leftover {
    reading: JoinHandle<()>,
    _group: Group,
}

impl Drop for Leftover {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// How a command came to its end.
enum End {
    Exited(ExitStatus),
    TimedOut(Duration),
    Halted,
}

impl Bash {
    pub(super) fn new(cwd: PathBuf, events: Arc<dyn EventSink>, grace: Duration) -> Self {
        Self { cwd, events, grace, leftovers: Mutex::default() }
    }

    pub(super) async fn run(&self, tool_use_id: &str, input: Input, halt: &CancellationToken) -> ToolResult {
        let limit_ms = input.timeout.filter(|limit| *limit > 0).unwrap_or(TIMEOUT_DEFAULT_MS);
        let limit = Duration::from_millis(limit_ms.min(TIMEOUT_MAX_MS));
        let child = self.spawn(&input.command).map_err(|error| format!("cannot start bash: {error}"))?;
        let relay = Relay::new(tool_use_id, Arc::clone(&self.events), RESULT_MAX_CHARS);
        let mut running = Running::new(child, relay)?;
        let end = running.until_its_end(limit, halt, self.grace).await?;
        running.drain().await;
        let output = self.keep_what_is_left(running);
        Ok(reply(&end, output))
    }

    fn spawn(&self, command: &str) -> std::io::Result<Child> {
        let start = |shell: &str| {
            Command::new(shell)
                .arg("-c")
                .arg(command)
                .current_dir(&self.cwd)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
        };
        match start("bash") {
            // A missing directory looks the same as a missing shell; the second try then tells the truth.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => start("sh"),
            started => started,
        }
    }

    fn keep_what_is_left(&self, running: Running) -> String {
        let mut leftovers = self.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
        leftovers.retain(|leftover| !leftover.reading.is_finished());
        let Running { group, stdout, stderr, relay, .. } = running;
        if stdout.is_none() && stderr.is_none() {
            // Nobody holds the pipes any more. The group's number may soon be another's: never signal it.
            group.forget();
        } else {
            if leftovers.len() == LEFTOVERS_MAX {
                leftovers.remove(0);
            }
            let reading = tokio::spawn(async move {
                tokio::join!(discard(stdout), discard(stderr));
            });
            leftovers.push(Leftover { reading, _group: group });
        }
        relay.finish()
    }
}

async fn discard(pipe: Option<impl AsyncRead + Unpin>) {
    if let Some(mut pipe) = pipe {
        // An error means that there is nothing more to read, which is all that matters here.
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
}

/// A command that has been started.
struct Running {
    child: Child,
    group: Group,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    relay: Relay,
    out_buffer: Vec<u8>,
    err_buffer: Vec<u8>,
}

impl Running {
    fn new(mut child: Child, relay: Relay) -> Result<Self, String> {
        let group = child.id().and_then(Group::led_by).ok_or("the command ended before it began")?;
        Ok(Self {
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            group,
            relay,
            out_buffer: vec![0; READ_BYTES],
            err_buffer: vec![0; READ_BYTES],
        })
    }

    /// Passes output on until the shell is gone, by itself or because it has to.
    async fn until_its_end(
        &mut self,
        limit: Duration,
        halt: &CancellationToken,
        grace: Duration,
    ) -> Result<End, String> {
        let deadline = Instant::now() + limit;
        loop {
            let flush_at = self.relay.flush_at();
            let forced = tokio::select! {
                () = halt.cancelled() => End::Halted,
                () = sleep_until(deadline) => End::TimedOut(limit),
                status = self.child.wait() => {
                    return status.map(End::Exited).map_err(|error| format!("lost the command: {error}"));
                }
                () = sleep_until(flush_at.unwrap_or(deadline)), if flush_at.is_some() => {
                    self.relay.flush_one();
                    continue;
                }
                read = read_some(&mut self.stdout, &mut self.out_buffer), if self.stdout.is_some() => {
                    self.relay.take(OutputStream::Stdout, &self.out_buffer[..read]);
                    continue;
                }
                read = read_some(&mut self.stderr, &mut self.err_buffer), if self.stderr.is_some() => {
                    self.relay.take(OutputStream::Stderr, &self.err_buffer[..read]);
                    continue;
                }
            };
            self.group.end(&mut self.child, grace).await;
            return Ok(forced);
        }
    }

    /// Reads what is still in the pipes.
    async fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN_MAX;
        while (self.stdout.is_some() || self.stderr.is_some()) && Instant::now() < deadline {
            let more = timeout(DRAIN_SILENCE, async {
                tokio::select! {
                    read = read_some(&mut self.stdout, &mut self.out_buffer), if self.stdout.is_some() => {
                        self.relay.take(OutputStream::Stdout, &self.out_buffer[..read]);
                    }
                    read = read_some(&mut self.stderr, &mut self.err_buffer), if self.stderr.is_some() => {
                        self.relay.take(OutputStream::Stderr, &self.err_buffer[..read]);
                    }
                }
            });
            if more.await.is_err() {
                break;
            }
        }
    }
}

/// Reads once; a pipe that has ended becomes none. Safe to drop before it is ready.
async fn read_some(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    let Some(open) = pipe else { return 0 };
    let read = open.read(buffer).await.unwrap_or(0);
    if read == 0 {
        *pipe = None;
    }
    read
}

fn reply(end: &End, mut output: String) -> ToolReply {
    if output.is_empty() {
        output.push_str("(no output)");
    }
    let note = match end {
        End::Exited(status) if status.success() => return ToolReply::ok(output),
        End::Exited(status) => match status.code() {
            Some(code) => format!("exit code {code}"),
            None => format!("the command was ended: {status}"),
        },
        End::TimedOut(limit) => {
            format!("the command was ended because it took longer than {} s", limit.as_secs_f32())
        }
        End::Halted => "[interrupted] the command was ended".to_owned(),
    };
    if !output.ends_with('\n') {
        output.push('\n');
    }
    output.push_str(&note);
    ToolReply::error(output)
}
