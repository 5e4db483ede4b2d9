//! Lines of bounded length out of a pipe.

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

const READ_BYTES: usize = 64 * 1024;
/// Of one line; a tool's result can carry an image.
const LINE_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Of one that is longer: what is kept of its beginning, and of its end.
const PIECE_BYTES: usize = 1024;
/// Lines that wait for the run; past this the CLI waits.
const WAITING_MAX: usize = 8;

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Whole(Vec<u8>),
    /// Too long to be kept.
    TooLong {
        size_bytes: usize,
        /// Its beginning and its end.
        pieces: Vec<u8>,
    },
}

/// Reads lines in a task of its own, so that waiting for one can be given up at any time. The channel ends with
/// the pipe.
pub(crate) fn read(pipe: impl AsyncRead + Unpin + Send + 'static) -> mpsc::Receiver<Read> {
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
    /// All of it, or its beginning once it is too long.
    bytes: Vec<u8>,
    /// Its end, once it is too long.
    end: Vec<u8>,
    size_bytes: usize,
}

impl Gathered {
    fn push(&mut self, piece: &[u8], max_bytes: usize) {
        self.size_bytes += piece.len();
        if self.size_bytes <= max_bytes {
            self.bytes.extend_from_slice(piece);
            return;
        }
        if self.end.is_empty() {
            self.end = self.bytes.split_off(self.bytes.len().min(PIECE_BYTES));
            self.bytes.shrink_to_fit();
        }
        self.end.extend_from_slice(piece);
        self.end.drain(..self.end.len().saturating_sub(PIECE_BYTES));
        self.end.shrink_to(2 * READ_BYTES);
    }

    fn done(mut self) -> Read {
        if self.bytes.len() == self.size_bytes {
            return Read::Whole(self.bytes);
        }
        self.bytes.append(&mut self.end);
        Read::TooLong { size_bytes: self.size_bytes, pieces: self.bytes }
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
        let too_long = Read::TooLong { size_bytes: 10, pieces: b"0123456789".to_vec() };
        let whole = |text: &[u8]| Read::Whole(text.to_vec());
        assert_eq!(read, [whole(b"one"), too_long, whole(b""), whole(b"two")]);
    }
}
