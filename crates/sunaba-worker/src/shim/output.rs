//! Keeps what the sandbox writes, up to a bound.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use sunaba_types::shim::OUTPUT_FILE;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;

/// Most output that is kept; what comes after is read and thrown away.
pub(super) const OUTPUT_MAX_BYTES: u64 = 64 * 1024 * 1024;
const CUT_MARK: &[u8] = b"\n[output cut here: 64 MiB are kept]\n";
const TAIL_MAX_BYTES: usize = 2000;

/// The task that keeps output.
#[derive(Debug)]
pub(super) struct Keeper(JoinHandle<()>);

impl Keeper {
    /// Starts to keep what comes out of the pipe.
    pub(super) fn start(pipe: OwnedFd) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(OUTPUT_FILE)?;
        Ok(Self(tokio::spawn(keep(Receiver::from_owned_fd(pipe)?, file, OUTPUT_MAX_BYTES))))
    }

    /// Waits for the last of it.
    pub(super) async fn finish(self, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.0).await;
    }
}

async fn keep(mut pipe: Receiver, mut file: File, limit: u64) {
    let mut buffer = vec![0; 16 * 1024];
    let mut room = limit;
    loop {
        let Ok(length @ 1..) = pipe.read(&mut buffer).await else { return };
        if room == 0 {
            continue;
        }
        let kept = length.min(usize::try_from(room).unwrap_or(usize::MAX));
        // A full disk must not stop the sandbox: what cannot be written is lost.
        let _ = file.write_all(&buffer[..kept]);
        room -= u64::try_from(kept).unwrap_or(room);
        if room == 0 {
            let _ = file.write_all(CUT_MARK);
        }
    }
}

/// The last words, for an error message.
pub(super) fn tail() -> String {
    let bytes = std::fs::read(OUTPUT_FILE).unwrap_or_default();
    let tail = &bytes[bytes.len().saturating_sub(TAIL_MAX_BYTES)..];
    String::from_utf8_lossy(tail).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_is_cut_at_the_bound_and_the_writer_is_not_blocked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let writing = std::thread::spawn(move || {
            let mut writer = File::from(writer);
            for _ in 0..100 {
                writer.write_all(&[b'x'; 4096]).unwrap();
            }
        });
        keep(Receiver::from_owned_fd(reader).unwrap(), File::create(&path).unwrap(), 10_000).await;
        writing.join().unwrap();
        let kept = std::fs::read(&path).unwrap();
        assert_eq!(kept.len(), 10_000 + CUT_MARK.len());
        assert!(kept.ends_with(CUT_MARK));
    }
}
