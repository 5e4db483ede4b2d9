//! The first process of a container, where nobody else is: it takes in orphans and passes SIGTERM on.
//!
//! Under bubblewrap this is bubblewrap's own work. A container's first process is the guest, so it starts itself
//! once more below this one, on a line like the shim's.

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use sunaba_types::shim::{CODE_FILE, HOME_INSIDE};

use super::execs::{exit_code, pid_of};
use super::line::{Order, Word};

/// Whether this process is the first of its pid namespace.
pub(super) fn is_first() -> bool {
    std::process::id() == 1
}

/// Runs the guest below this process; ends as it ended.
pub(super) fn run(command: &[String]) -> anyhow::Result<ExitCode> {
    prctl::set_dumpable(false).context("shut the first process's memory")?;
    let mut heeded = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD] {
        heeded.add(signal);
    }
    // Taken one at a time below; what is started gets an empty mask of its own.
    heeded.thread_block().context("hold signals back")?;
    let (mut line, far_end) = UnixStream::pair().context("make the guest's line")?;
    let guest = Command::new(std::env::current_exe().context("find this program")?)
        .args(["guest", "--"])
        .args(command)
        .stdin(Stdio::from(OwnedFd::from(far_end)))
        .spawn()
        .context("start the guest")?;
    let guest = pid_of(&guest)?;
    let mut terminate = serde_json::to_vec(&Order::Terminate)?;
    terminate.push(b'\n');
    loop {
        match heeded.wait().context("wait for a signal")? {
            Signal::SIGCHLD => {}
            // A guest that is gone is found out below.
            _ => drop(line.write_all(&terminate)),
        }
        if let Some(code) = reap(guest) {
            note_code(&line, code);
            return Ok(exit_code(code));
        }
    }
}

/// A container's end is one number for codes and signals. Where the command chose a code that could be taken for
/// a signal, it is noted in the home; whoever forges the note could as well have chosen the code.
fn note_code(mut line: &UnixStream, number: i32) {
    let mut words = Vec::new();
    let _ = line.set_nonblocking(true);
    // The guest is over: what it said is all there.
    let _ = line.read_to_end(&mut words);
    let chosen = words.split(|byte| *byte == b'\n').any(|word| {
        let word = serde_json::from_slice::<Word>(word);
        matches!(word, Ok(Word::Exited { code: Some(code), signal: None }) if code == number)
    });
    if chosen && number > 128 {
        let _ = std::fs::write(Path::new(HOME_INSIDE).join(CODE_FILE), number.to_string());
    }
}

/// Takes in everything that has ended; the guest's code, when it is among it.
fn reap(guest: nix::unistd::Pid) -> Option<i32> {
    let mut ended = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == guest => ended = Some(code),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == guest => ended = Some(128 + signal as i32),
            Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::ECHILD) => return ended,
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return ended.or(Some(1)),
        }
    }
}
