//! A connection to the outside that is counted, and given up when nothing moves on it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// Bytes carried.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// To the outside.
    pub(super) sent: AtomicU64,
    /// From it.
    pub(super) received: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Idle {
    stream: TcpStream,
    traffic: Arc<Traffic>,
    patience: Duration,
    moved: Instant,
    until: Pin<Box<Sleep>>,
}

impl Idle {
    pub(super) fn new(stream: TcpStream, patience: Duration, traffic: Arc<Traffic>) -> Self {
        let until = Box::pin(sleep(patience));
        Self { stream, traffic, patience, moved: Instant::now(), until }
    }

    /// Passes on that nothing moves, until that has been so for too long.
    fn waited<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        loop {
            ready!(self.until.as_mut().poll(cx));
            let deadline = self.moved + self.patience;
            if deadline <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            // The timer is moved only when it rings: most bytes cost no timer.
            self.until.as_mut().reset(deadline);
        }
    }

    fn wrote(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match outcome {
            Poll::Pending => self.waited(cx),
            Poll::Ready(Ok(length)) => {
                self.moved = Instant::now();
                self.traffic.sent.fetch_add(length as u64, Ordering::Relaxed);
                Poll::Ready(Ok(length))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncRead for Idle {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Pending => this.waited(cx),
            Poll::Ready(outcome) => {
                this.moved = Instant::now();
                let length = buf.filled().len() - before;
                this.traffic.received.fetch_add(length as u64, Ordering::Relaxed);
                Poll::Ready(outcome)
            }
        }
    }
}

impl AsyncWrite for Idle {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.wrote(cx, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.wrote(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
