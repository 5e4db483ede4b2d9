//! The first program inside a sandbox: keeps the bridge alive and runs the command.
//!
//! It owns the bridge's listening socket, so a bridge that dies loses nobody's
//! place in the queue. On its standard input it has a line to the shim: it says
//! when it began and how the command ended, and is told to pass on SIGTERM.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// What the guest tells the shim, one JSON line each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "guest")]
pub(crate) enum Word {
    /// The command is about to run.
    Began,
    /// The command is over.
    Exited {
        /// When it ended by itself.
        code: Option<i32>,
        /// When a signal ended it.
        signal: Option<i32>,
    },
}

/// What the shim writes to have SIGTERM passed on.
pub(crate) const TERMINATE: &[u8] = b"terminate\n";

/// Between two starts of a bridge that keeps dying.
const BRIDGE_PAUSE: Duration = Duration::from_millis(50);
const THREAD_STACK_BYTES: usize = 256 * 1024;
const LINE_MAX_BYTES: u64 = 1024;

/// Runs the command with a bridge beside it; its exit code is ours.
pub fn run(command: &[String], bridge_address: &str) -> anyhow::Result<ExitCode> {
    let own_program = std::env::current_exe().context("find this program")?;
    // What else runs here has the same user: it must not speak on this line or trace this process.
    prctl::set_dumpable(false).context("shut the guest's memory")?;
    let mut line = take_stdin().context("take the shim's line")?;
    let listener =
        TcpListener::bind(bridge_address).with_context(|| format!("listen on {bridge_address}"))?;
    let bridges = OwnedFd::from(listener);
    thread("bridge", move || keep_bridge(&own_program, &bridges))?;

    let (program, arguments) = command.split_first().context("no command")?;
    say(&mut line, Word::Began);
    let child = match Command::new(program).args(arguments).stdin(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => {
            say(&mut line, Word::Exited { code: Some(127), signal: None });
            return Err(error).with_context(|| format!("start {program}"));
        }
    };
    let status = follow(child, line.try_clone()?)?;
    say(&mut line, Word::Exited { code: status.code(), signal: status.signal() });
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    // The bridge ends with the pid namespace, as everything else does.
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Takes the line and leaves nothing on standard input for the command.
fn take_stdin() -> anyhow::Result<File> {
    let stdin = std::io::stdin();
    let line = File::from(stdin.as_fd().try_clone_to_owned()?);
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    Ok(line)
}

fn say(line: &mut File, word: Word) {
    if let Ok(mut text) = serde_json::to_vec(&word) {
        text.push(b'\n');
        // Without a shim there is nobody to tell.
        let _ = line.write_all(&text);
    }
}

/// Waits for the command and passes SIGTERM on to it when told to.
fn follow(mut child: Child, line: File) -> anyhow::Result<std::process::ExitStatus> {
    let living = Arc::new(Mutex::new(Some(Pid::from_raw(i32::try_from(child.id())?))));
    let told = Arc::clone(&living);
    thread("orders", move || {
        let mut lines = BufReader::new(line);
        let mut order = Vec::new();
        while matches!(lines.by_ref().take(LINE_MAX_BYTES).read_until(b'\n', &mut order), Ok(1..)) {
            if order == TERMINATE
                && let Some(pid) = *told.lock().unwrap_or_else(PoisonError::into_inner)
            {
                let _ = kill(pid, Signal::SIGTERM);
            }
            order.clear();
        }
    })?;
    let status = child.wait().context("wait for the command")?;
    *living.lock().unwrap_or_else(PoisonError::into_inner) = None;
    Ok(status)
}

fn keep_bridge(program: &std::path::Path, listener: &OwnedFd) {
    loop {
        let Ok(socket) = listener.try_clone() else { return };
        match Command::new(program).arg("bridge").env_clear().stdin(Stdio::from(socket)).spawn() {
            Ok(mut bridge) => {
                let ended = bridge.wait();
                tracing::warn!(?ended, "the bridge ended; starting it again");
            }
            Err(error) => tracing::warn!(%error, "cannot start the bridge"),
        }
        std::thread::sleep(BRIDGE_PAUSE);
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> anyhow::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(THREAD_STACK_BYTES).spawn(work)?;
    Ok(())
}
