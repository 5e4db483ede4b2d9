//! Asks a shim over its control socket.

use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use sunaba_types::shim::{CONTROL_SOCKET, Reply, Request};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

/// Longest answer that is read.
const REPLY_MAX_BYTES: u64 = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends one request and reads its answer. How long the answer may take is the caller's business.
pub(super) async fn ask(dir: &Path, request: &Request) -> io::Result<Reply> {
    let mut stream = tokio::time::timeout(CONNECT_TIMEOUT, connect(dir))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the control socket did not answer"))??;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut answer = Vec::new();
    BufReader::new(stream).take(REPLY_MAX_BYTES).read_until(b'\n', &mut answer).await?;
    if answer.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the shim closed the control socket"));
    }
    serde_json::from_slice(&answer).map_err(io::Error::from)
}

/// Goes through the open directory, because a socket's address holds only 108 bytes.
async fn connect(dir: &Path) -> io::Result<UnixStream> {
    let directory = open(dir, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    UnixStream::connect(format!("/proc/self/fd/{}/{CONTROL_SOCKET}", directory.as_raw_fd())).await
}
