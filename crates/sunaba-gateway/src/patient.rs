//! A connection that is given up when nothing moves on it for too long, and that keeps something for as long as
//! it lives: its place among those allowed, or the count of what it carries.
//!
//! What is kept belongs to the stream, not to the task that serves it: a WebSocket or a tunnel outlives that task.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};

/// What a stream keeps; it may count what is carried.
pub trait Keeps: Unpin {
    /// So many bytes were written.
    fn sent(&self, _bytes: u64) {}
    /// So many bytes were read.
    fn received(&self, _bytes: u64) {}
}

impl Keeps for OwnedSemaphorePermit {}

/// What must not stand still for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Minds {
    /// A write that finds no room: the other side may be silent, but has to read.
    Writes,
    /// Everything: it has to read or to speak.
    Silence,
}

/// See the module.
#[derive(Debug)]
pub struct Patient<S, K> {
    stream: S,
    keeps: K,
    minds: Minds,
    patience: Duration,
    /// When something moved last, or when a write began to wait.
    since: Instant,
    /// Whether a write waits for room.
    waiting: bool,
    until: Pin<Box<Sleep>>,
}

impl<S, K: Keeps> Patient<S, K> {
    /// Gives a stream so much patience.
    pub fn new(stream: S, keeps: K, minds: Minds, patience: Duration) -> Self {
        let until = Box::pin(sleep(patience));
        Self { stream, keeps, minds, patience, since: Instant::now(), waiting: false, until }
    }

    /// Passes on that nothing moves, until that has been so for too long.
    fn waited<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        loop {
            ready!(self.until.as_mut().poll(cx));
            let deadline = self.since + self.patience;
            if deadline <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            // The timer is moved only when it rings: most bytes cost no timer.
            self.until.as_mut().reset(deadline);
        }
    }

    fn moved(&mut self) {
        if self.minds == Minds::Silence {
            self.since = Instant::now();
        }
    }

    /// Passes a write's outcome on, unless it has waited for too long.
    fn minded<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = false;
            self.moved();
            return outcome;
        }
        if !std::mem::replace(&mut self.waiting, true) && self.minds == Minds::Writes {
            self.since = Instant::now();
        }
        self.waited(cx)
    }

    fn wrote(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(length)) = &outcome {
            self.keeps.sent(*length as u64);
        }
        self.minded(cx, outcome)
    }
}

impl<S: AsyncRead + Unpin, K: Keeps> AsyncRead for Patient<S, K> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Pending if this.minds == Minds::Silence => this.waited(cx),
            Poll::Pending => Poll::Pending,
            Poll::Ready(outcome) => {
                this.moved();
                this.keeps.received((buf.filled().len() - before) as u64);
                Poll::Ready(outcome)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin, K: Keeps> AsyncWrite for Patient<S, K> {
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
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::sync::Semaphore;

    use super::*;

    /// Half of it is more than a busy machine is late.
    const PATIENCE: Duration = Duration::from_secs(1);

    #[derive(Debug, Default)]
    struct Counts(AtomicU64, AtomicU64);

    impl Keeps for Arc<Counts> {
        fn sent(&self, bytes: u64) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
        fn received(&self, bytes: u64) {
            self.1.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The other side, which reads a little at a time and stops after `times`.
    fn reads_slowly(mut far: DuplexStream, times: u32) -> tokio::task::JoinHandle<DuplexStream> {
        tokio::spawn(async move {
            for _ in 0..times {
                sleep(PATIENCE / 2).await;
                far.read_exact(&mut [0; 4]).await.unwrap();
            }
            far
        })
    }

    #[tokio::test]
    async fn a_reader_that_stands_still_is_given_up_and_a_slow_one_is_not() {
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let (near, far) = tokio::io::duplex(4);
        let mut near = Patient::new(near, place, Minds::Writes, PATIENCE);
        let slow = reads_slowly(far, 3);
        near.write_all(&[7; 16]).await.expect("it reads, if slowly");
        let mut far = slow.await.unwrap();
        // It owes no word, for however long.
        assert!(tokio::time::timeout(PATIENCE * 5 / 4, near.read(&mut [0; 1])).await.is_err());
        far.write_all(b"x").await.unwrap();
        near.read_exact(&mut [0; 1]).await.expect("it is still there");
        assert_eq!(near.write_all(&[7; 16]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(places.available_permits(), 0);
        drop((near, far));
        assert_eq!(places.available_permits(), 1, "the place goes with the stream");
    }

    #[tokio::test]
    async fn silence_is_given_up_unless_something_moves_either_way() {
        let (near, mut far) = tokio::io::duplex(64);
        let counts = Arc::new(Counts::default());
        let mut near = Patient::new(near, Arc::clone(&counts), Minds::Silence, PATIENCE);
        for _ in 0..3 {
            assert!(tokio::time::timeout(PATIENCE / 2, near.read(&mut [0; 1])).await.is_err());
            near.write_all(b"out").await.expect("it may go on");
            far.write_all(b"in").await.unwrap();
            near.read_exact(&mut [0; 2]).await.unwrap();
        }
        let ended = near.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        assert_eq!((counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed)), (9, 6));
    }
}
