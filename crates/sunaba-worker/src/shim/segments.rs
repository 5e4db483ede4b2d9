//! Memory that belongs to no process: System V shared memory that nobody has attached, and messages that
//! nobody has received.
//!
//! It is counted only in the tables of the sandbox's own ipc namespace, and a table shows the namespace of whoever
//! opens it. So a process of one thread goes there, opens the tables, hands them back and ends. They stay tables of
//! that namespace, whoever reads them.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use nix::sched::{CloneFlags, setns};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sunaba_sandbox::process;
use sunaba_types::shim::Held;

/// The tables, and the columns that say how many bytes are held.
const TABLES: [(&str, &[&str]); 2] =
    [("/proc/sysvipc/shm", &["rss", "swap"]), ("/proc/sysvipc/msg", &["cbytes"])];
/// How long the process that opens them may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest table that is read: every line is one of at most 32,768 objects.
const TABLE_MAX_BYTES: usize = 16 << 20;

/// The tables of one sandbox, once they are there.
#[derive(Debug, Default)]
pub(super) struct Segments {
    tables: OnceLock<Vec<File>>,
    begun: AtomicBool,
}

impl Segments {
    /// Opens the tables, the first time it is asked. Takes a moment: not for the thread that answers.
    pub(super) fn open(&self, held: &Held) {
        if self.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        match fetch(held) {
            Ok(tables) => drop(self.tables.set(tables)),
            Err(error) => tracing::warn!("shared memory that nobody has attached is not counted: {error:#}"),
        }
    }

    /// Whether somebody has to open them.
    pub(super) fn is_wanted(&self) -> bool {
        !self.begun.load(Ordering::Relaxed)
    }

    /// What is held now.
    pub(super) fn bytes(&self) -> u64 {
        let tables = self.tables.get().into_iter().flatten();
        tables.zip(TABLES).map(|(table, (_, columns))| sum(&read(table).unwrap_or_default(), columns)).sum()
    }
}

fn read(table: &File) -> io::Result<String> {
    let mut text = Vec::new();
    let mut part = vec![0; 64 * 1024];
    while text.len() < TABLE_MAX_BYTES {
        let length = table.read_at(&mut part, text.len() as u64)?;
        if length == 0 {
            break;
        }
        text.extend_from_slice(&part[..length]);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Adds up the columns of these names.
fn sum(table: &str, columns: &[&str]) -> u64 {
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let wanted: Vec<usize> =
        columns.iter().filter_map(|column| names.iter().position(|name| name == column)).collect();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            wanted.iter().filter_map(|at| cells.get(*at)?.parse::<u64>().ok()).sum::<u64>()
        })
        .sum()
}

/// Has them opened by a process of its own.
fn fetch(held: &Held) -> anyhow::Result<Vec<File>> {
    let (ours, theirs) = UnixStream::pair().context("make the line")?;
    ours.set_read_timeout(Some(PATIENCE))?;
    let mut child = Command::new(std::env::current_exe().context("find this program")?)
        .args(["tables", "--pid", &held.init_pid.to_string()])
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .context("start the process that opens the tables")?;
    let received = receive(&ours);
    // Nothing is left of it: it has answered, or it is too late for an answer.
    let _ = child.kill();
    let _ = child.wait();
    // A number is given to another process once its own is gone; it was not before this.
    ensure!(process::is_alive(held.init_pid, held.init_start_time), "the sandbox is over");
    received
}

fn receive(line: &UnixStream) -> anyhow::Result<Vec<File>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(TABLES.len()))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(line, &mut [IoSliceMut::new(&mut byte)], &mut control, flags).context("hear from it")?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let tables: Vec<File> = rights.flatten().map(File::from).collect();
    ensure!(tables.len() == TABLES.len(), "it could not open them");
    Ok(tables)
}

/// The other side: goes to the namespace of this process, opens the tables and hands them over on standard input.
/// It has one thread, as a user namespace demands of who enters it.
pub fn hand_over(pid: i32) -> anyhow::Result<()> {
    let of = Pid::from_raw(pid).context("a process has a number above 0")?;
    let of = pidfd_open(of, PidfdFlags::empty()).context("find the sandbox")?;
    // Root may enter as itself; an ordinary user only as the user that it is in there.
    let user = if nix::unistd::geteuid().is_root() { CloneFlags::empty() } else { CloneFlags::CLONE_NEWUSER };
    setns(&of, CloneFlags::CLONE_NEWIPC | user).context("enter the sandbox's ipc namespace")?;
    let tables = TABLES.map(|(path, _)| File::open(path));
    let tables = tables.into_iter().collect::<io::Result<Vec<_>>>().context("open the tables")?;
    let tables: Vec<_> = tables.iter().map(|table| table.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(TABLES.len()))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    ensure!(control.push(SendAncillaryMessage::ScmRights(&tables)), "the tables do not fit into a message");
    sendmsg(std::io::stdin(), &[IoSlice::new(b"t")], &mut control, SendFlags::empty())
        .context("hand them over")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_what_is_resident_and_what_is_swapped() {
        let table = "       key      shmid perms                  size  cpid nattch                   rss                  swap\n\
                              0          0  1600              33554432    10      0              33554432                  4096\n\
                              0          1  1600              33554432    10      1                     0                     0\n";
        assert_eq!(sum(table, &["rss", "swap"]), 33_554_432 + 4096);
        assert_eq!(sum(table, &["cbytes"]), 0);
        assert_eq!(sum("", &["rss"]), 0);
    }

    #[test]
    fn the_tables_are_as_they_are_known_here() {
        for (path, columns) in TABLES {
            let table = read(&File::open(path).unwrap()).unwrap();
            for column in columns {
                assert!(table.lines().next().unwrap().contains(column), "{path}: {table}");
            }
        }
    }
}
