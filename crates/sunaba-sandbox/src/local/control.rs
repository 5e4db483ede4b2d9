//! Asks a shim over its control socket.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use sunaba_types::shim::{CONTROL_SOCKET, Reply, Request};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Interest};
use tokio::net::UnixStream;

/// Longest answer that is read.
const REPLY_MAX_BYTES: u64 = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Standard input, output and error.
const FILES_MAX: usize = 3;

/// Sends one request and reads its answer. How long the answer may take is the caller's business.
pub(super) async fn ask(dir: &Path, request: &Request) -> io::Result<Reply> {
    ask_with(dir, request, &[]).await
}

/// The same, with open files beside the request.
pub(super) async fn ask_with(dir: &Path, request: &Request, files: &[BorrowedFd<'_>]) -> io::Result<Reply> {
    let mut stream = tokio::time::timeout(CONNECT_TIMEOUT, connect(dir))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the control socket did not answer"))??;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    let sent = if files.is_empty() { 0 } else { send_first(&stream, &line, files).await? };
    stream.write_all(&line[sent..]).await?;
    let mut answer = Vec::new();
    BufReader::new(stream).take(REPLY_MAX_BYTES).read_until(b'\n', &mut answer).await?;
    if answer.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the shim closed the control socket"));
    }
    serde_json::from_slice(&answer).map_err(io::Error::from)
}

/// Sends the files with the first bytes; how many bytes went.
async fn send_first(stream: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    loop {
        stream.writable().await?;
        let sent = stream.try_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            if !beside.push(SendAncillaryMessage::ScmRights(files)) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files for one request"));
            }
            Ok(sendmsg(stream.as_fd(), &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL)?)
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

/// Goes through the open directory, because a socket's address holds only 108 bytes.
async fn connect(dir: &Path) -> io::Result<UnixStream> {
    let directory = open(dir, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    UnixStream::connect(format!("/proc/self/fd/{}/{CONTROL_SOCKET}", directory.as_raw_fd())).await
}
