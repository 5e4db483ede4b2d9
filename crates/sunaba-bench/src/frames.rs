//! A WebSocket reader that does next to nothing, so that a thousand of them on the same two cores as the
//! server take as little of its time as can be.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TEXT: u8 = 0x1;
const CLOSE: u8 = 0x8;
const SILENCE: Duration = Duration::from_secs(30);

/// Frames as they come from the server.
#[derive(Debug)]
pub(crate) struct Frames {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// How much of the buffer has been looked at.
    used: usize,
}

impl Frames {
    /// Connects and upgrades.
    pub(crate) async fn open(authority: &str, path: &str) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3VuYWJhIGJlbmNobWFyaw==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut frames = Self { stream, buffer: Vec::new(), used: 0 };
        let end = loop {
            frames.read_more().await?;
            if let Some(at) = frames.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
        };
        ensure!(
            frames.buffer.starts_with(b"HTTP/1.1 101"),
            "{}",
            String::from_utf8_lossy(&frames.buffer[..end])
        );
        frames.used = end;
        Ok(frames)
    }

    /// Waits for `count` text frames of at least `size` bytes and says when each was here.
    pub(crate) async fn arrivals(&mut self, count: usize, size: usize) -> anyhow::Result<Vec<Instant>> {
        let mut arrived = Vec::with_capacity(count);
        while arrived.len() < count {
            match self.next_in_buffer() {
                Some((CLOSE, _)) => bail!("the server closed the stream after {} frames", arrived.len()),
                Some((TEXT, length)) if length >= size => arrived.push(Instant::now()),
                Some(_) => {}
                None => self.read_more().await?,
            }
        }
        Ok(arrived)
    }

    /// Kind and length of the next whole frame, if it is here. The server's frames are not masked.
    fn next_in_buffer(&mut self) -> Option<(u8, usize)> {
        let bytes = &self.buffer[self.used..];
        let (length, header) = match *bytes.get(1)? & 0x7f {
            126 => (usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)), 4),
            127 => (usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?, 10),
            short => (usize::from(short), 2),
        };
        if bytes.len() < header + length {
            return None;
        }
        let kind = bytes[0] & 0x0f;
        self.used += header + length;
        Some((kind, length))
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let read = tokio::time::timeout(SILENCE, self.stream.read_buf(&mut self.buffer)).await??;
        ensure!(read > 0, "the server hung up");
        Ok(())
    }
}
