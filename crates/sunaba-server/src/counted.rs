//! A connection that holds its place among those allowed, and is given up when nobody reads it.
//!
//! The place belongs to the stream, not to the task that serves it: a WebSocket
//! outlives that task.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

/// How long a write may find no room at all.
const WRITE_IDLE: Duration = Duration::from_secs(120);

/// See the module.
#[derive(Debug)]
pub(crate) struct Counted<S> {
    stream: S,
    /// Runs while a write waits for room.
    stuck: Pin<Box<Sleep>>,
    waiting: bool,
    patience: Duration,
    _place: OwnedSemaphorePermit,
}

impl<S> Counted<S> {
    pub(crate) fn new(stream: S, place: OwnedSemaphorePermit) -> Self {
        Self::with_patience(stream, place, WRITE_IDLE)
    }

    fn with_patience(stream: S, place: OwnedSemaphorePermit, patience: Duration) -> Self {
        let stuck = Box::pin(tokio::time::sleep(patience));
        Self { stream, stuck, waiting: false, patience, _place: place }
    }

    /// Passes a write's outcome on, unless it has waited for too long.
    fn minded<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = false;
            return outcome;
        }
        if !std::mem::replace(&mut self.waiting, true) {
            let until = Instant::now() + self.patience;
            self.stuck.as_mut().reset(until);
        }
        ready!(self.stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.minded(cx, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.minded(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.stream).poll_flush(cx);
        this.minded(cx, outcome)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_reader_that_stands_still_is_given_up_and_a_slow_one_is_not() {
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let (near, mut far) = tokio::io::duplex(4);
        let patience = Duration::from_millis(400);
        let mut near = Counted::with_patience(near, place, patience);
        let slow = tokio::spawn(async move {
            let mut piece = [0; 4];
            for _ in 0..3 {
                tokio::time::sleep(patience / 2).await;
                far.read_exact(&mut piece).await.unwrap();
            }
            far
        });
        near.write_all(&[7; 16]).await.expect("it reads, if slowly");
        let far = slow.await.unwrap();
        assert_eq!(near.write_all(&[7; 16]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(places.available_permits(), 0);
        drop((near, far));
        assert_eq!(places.available_permits(), 1, "the place goes with the stream");
    }
}
