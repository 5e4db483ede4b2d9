//! The line between shim and guest: a Unix socket pair, one JSON line a message.
//!
//! Open files travel beside an [`Order::Exec`], exactly three for each, in the order of the orders: so the
//! next three that arrived belong to the next exec, however the bytes were cut on their way.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use tokio::net::unix::OwnedWriteHalf;

/// Standard input, output and error.
pub(crate) const STREAMS: usize = 3;
/// Longest order: a command line with its environment.
const ORDER_MAX_BYTES: usize = 1024 * 1024;
/// Files that may have arrived before their order is complete.
const FILES_WAITING_MAX: usize = STREAMS * 64;

/// What the guest tells the shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// One more process is over; nobody else writes to its streams but what it left behind.
    ExecExited {
        /// Which.
        id: u64,
        /// When it ended by itself.
        code: Option<i32>,
        /// When a signal ended it.
        signal: Option<i32>,
        /// When it could not be started: why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// What the shim tells the guest.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "order")]
pub(crate) enum Order {
    /// Pass SIGTERM on to the command.
    Terminate,
    /// Start one more process; its three streams come beside this line.
    Exec {
        /// The shim's name for it, never used twice.
        id: u64,
        /// The program and its arguments.
        command: Vec<String>,
        /// Variables besides those of the command.
        #[serde(default)]
        env: BTreeMap<String, String>,
        /// Where it starts; the workspace without one.
        #[serde(default)]
        cwd: Option<String>,
    },
    /// Kill it, with everything it started. One that is over is no error.
    KillExec {
        /// Which.
        id: u64,
    },
}

impl std::fmt::Debug for Order {
    /// Without the variables' values, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Terminate => f.write_str("Terminate"),
            Self::Exec { id, command, .. } => {
                f.debug_struct("Exec").field("id", id).field("command", command).finish_non_exhaustive()
            }
            Self::KillExec { id } => f.debug_struct("KillExec").field("id", id).finish(),
        }
    }
}

/// Sends an order from the shim, with the files that belong to it ([`STREAMS`] for an exec, none otherwise).
///
/// Not to be cancelled in the middle, and one at a time: half an order would spoil the line for all that follow.
pub(crate) async fn send_order(
    line: &OwnedWriteHalf,
    order: &Order,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let expected = if matches!(order, Order::Exec { .. }) { STREAMS } else { 0 };
    if files.len() != expected {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "wrong number of files for this order"));
    }
    let mut text = serde_json::to_vec(order)?;
    text.push(b'\n');
    if text.len() > ORDER_MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the command with its variables is too long",
        ));
    }
    let socket = line.as_ref();
    let mut rest = text.as_slice();
    let mut files = files;
    while !rest.is_empty() {
        socket.writable().await?;
        match socket.try_io(tokio::io::Interest::WRITABLE, || send_some(socket.as_fd(), rest, files)) {
            Ok(sent) => {
                rest = &rest[sent..];
                // They went with the first byte.
                files = &[];
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn send_some(socket: BorrowedFd<'_>, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files for one order"));
    }
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL)?)
}

/// The guest's end for telling.
#[derive(Debug)]
pub(super) struct Mouth(Mutex<File>);

impl Mouth {
    pub(super) fn new(line: File) -> Self {
        Self(Mutex::new(line))
    }

    /// Says a word. Without a shim there is nobody to tell, which is no error.
    pub(super) fn say(&self, word: &Word) {
        if let Ok(mut text) = serde_json::to_vec(word) {
            text.push(b'\n');
            let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text);
        }
    }
}

/// The guest's end for being told.
#[derive(Debug)]
pub(super) struct Ear {
    line: File,
    text: Vec<u8>,
    files: VecDeque<OwnedFd>,
}

/// An order, with its streams if it is an exec.
pub(super) type Heard = (Order, Option<[OwnedFd; STREAMS]>);

impl Ear {
    pub(super) fn new(line: File) -> Self {
        Self { line, text: Vec::new(), files: VecDeque::new() }
    }

    /// Waits for the next order; `None` when nobody is left to give one or the line makes no sense any more.
    pub(super) fn hear(&mut self) -> Option<Heard> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                let order = serde_json::from_slice(&line).ok()?;
                return match order {
                    Order::Exec { .. } => Some((order, Some(self.take_streams()?))),
                    other => Some((other, None)),
                };
            }
            if self.text.len() > ORDER_MAX_BYTES || self.read_some().ok()? == 0 {
                return None;
            }
        }
    }

    fn take_streams(&mut self) -> Option<[OwnedFd; STREAMS]> {
        Some([self.files.pop_front()?, self.files.pop_front()?, self.files.pop_front()?])
    }

    fn read_some(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        // Closed when another program is started: each stream goes to its own process only.
        let flags = RecvFlags::CMSG_CLOEXEC;
        let read = loop {
            match recvmsg(&self.line, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?.bytes,
            }
        };
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        if self.files.len() > FILES_WAITING_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more files than orders"));
        }
        self.text.extend_from_slice(&bytes[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn exec(id: u64, padding: usize) -> Order {
        let env = BTreeMap::from([("PADDING".to_owned(), "x".repeat(padding))]);
        Order::Exec { id, command: vec!["true".to_owned()], env, cwd: None }
    }

    fn named(name: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(name.as_bytes()).unwrap();
        file.rewind().unwrap();
        file
    }

    #[tokio::test]
    async fn every_exec_gets_its_own_files_however_the_bytes_are_cut() {
        let (ours, guests) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (_read, line) = tokio::net::UnixStream::from_std(ours).unwrap().into_split();
        let hearing = std::thread::spawn(move || {
            let mut ear = Ear::new(File::from(OwnedFd::from(guests)));
            let mut seen = Vec::new();
            while let Some((order, streams)) = ear.hear() {
                let mut text = String::new();
                for stream in streams.into_iter().flatten() {
                    File::from(stream).read_to_string(&mut text).unwrap();
                }
                seen.push((order, text));
            }
            seen
        });
        // Short ones lie in the socket together; the long ones do not fit into it at once.
        let orders = [exec(1, 1), Order::Terminate, exec(2, 900_000), exec(3, 10), exec(4, 500_000)];
        for order in &orders {
            let files = match order {
                Order::Exec { id, .. } => vec![named(&format!("{id}i")), named("o"), named("e")],
                _ => Vec::new(),
            };
            let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
            send_order(&line, order, &borrowed).await.unwrap();
        }
        let wrong = send_order(&line, &exec(5, 1), &[]).await;
        assert!(wrong.is_err(), "an exec without its streams is not sent");
        assert!(send_order(&line, &exec(6, 2_000_000), &[]).await.is_err());
        drop((line, _read));
        let seen = hearing.join().unwrap();
        let texts: Vec<_> = seen.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["1ioe", "", "2ioe", "3ioe", "4ioe"]);
        assert!(seen.iter().map(|(order, _)| order).eq(&orders));
    }

    #[test]
    fn a_line_that_makes_no_sense_ends_the_hearing() {
        let (mut ours, guests) = UnixStream::pair().unwrap();
        ours.write_all(b"{\"order\":\"dance\"}\n").unwrap();
        assert!(Ear::new(File::from(OwnedFd::from(guests))).hear().is_none());
    }

    #[test]
    fn values_of_variables_are_not_shown() {
        assert!(!format!("{:?}", exec(1, 3)).contains("xxx"));
    }
}
