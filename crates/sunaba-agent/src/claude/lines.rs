//! Lines of bounded length out of a pipe.

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

const READ_BYTES: usize = 64 * 1024;
/// Of one line; a tool's result can carry an image.
const LINE_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Lines that wait for the run; past this the CLI waits.
const WAITING_MAX: usize = 8;

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Whole(Vec<u8>),
    /// Too long to be kept; only its length is known.
    TooLong {
        size_bytes: usize,
    },
}

/// Reads lines in a task of its own, so that waiting for one can be given up at any time. The channel ends with
/// the pipe.
pub(super) fn read(pipe: impl AsyncRead + Unpin + Send + 'static) -> mpsc::Receiver<Read> {
    let (lines, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(pump(pipe, lines, LINE_MAX_BYTES));
    receiver
}

async fn pump(mut pipe: impl AsyncRead + Unpin, lines: mpsc::Sender<Read>, max_bytes: usize) {
    let mut buffer = vec![0; READ_BYTES];
    let mut line = Gathered::default();
    loop {
        // An error of a pipe means that there is nothing more to read.
        let read = pipe.read(&mut buffer).await.unwrap_or(0);
        if read == 0 {
            break;
        }
        let mut rest = &buffer[..read];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            line.push(&rest[..end], max_bytes);
            rest = &rest[end + 1..];
            if lines.send(std::mem::take(&mut line).done()).await.is_err() {
                return;
            }
        }
        line.push(rest, max_bytes);
    }
    if line.size_bytes > 0 {
        let _ = lines.send(line.done()).await;
    }
}

/// A line in the making.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    size_bytes: usize,
}

impl Gathered {
    fn push(&mut self, piece: &[u8], max_bytes: usize) {
        self.size_bytes += piece.len();
        if self.size_bytes > max_bytes {
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(piece);
        }
    }

    fn done(self) -> Read {
        if self.bytes.len() == self.size_bytes {
            Read::Whole(self.bytes)
        } else {
            Read::TooLong { size_bytes: self.size_bytes }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_long_line_is_left_out_and_the_next_ones_are_read() {
        let (lines, mut receiver) = mpsc::channel(16);
        pump(&b"one\n0123456789\n\ntwo"[..], lines, 5).await;
        let mut read = Vec::new();
        while let Some(line) = receiver.recv().await {
            read.push(line);
        }
        let whole = |text: &[u8]| Read::Whole(text.to_vec());
        assert_eq!(read, [whole(b"one"), Read::TooLong { size_bytes: 10 }, whole(b""), whole(b"two")]);
    }
}
