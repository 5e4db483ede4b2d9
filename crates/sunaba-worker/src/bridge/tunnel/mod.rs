//! The way to a server on another machine: one upgraded connection that carries all others.
//!
//! Streams are multiplexed with yamux; the first byte of each says which of the server's doors it is for. The
//! connection is made anew whenever it breaks, with pauses; meanwhile no stream can be opened, so the bridge
//! holds its clients as it does for a Unix socket. A connection that looks open but answers nothing is found by
//! a ping and given up.

mod dial;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt as _, TokioAsyncReadCompatExt as _};
use tokio_util::sync::CancellationToken;

use self::dial::Address;
use super::way::{Line, Outward};

/// Streams at once; fewer than the server takes, so that it never ends the connection over one.
const STREAMS_MAX: usize = 128;
/// Those that are over may not be forgotten yet.
const STREAMS_KNOWN_MAX: usize = STREAMS_MAX + 64;
/// What may wait unread over all streams.
const WINDOW_BYTES: usize = STREAMS_KNOWN_MAX * 256 * 1024;
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a connection has to stand before the next one is made without a pause.
const STEADY: Duration = Duration::from_secs(10);
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(15);
const OPEN_WITHIN: Duration = Duration::from_secs(15);

type Connection = yamux::Connection<Compat<dial::Dialled>>;

/// Somebody who wants a stream.
type Wish = oneshot::Sender<io::Result<yamux::Stream>>;

/// A tunnel that is kept up for as long as this lives.
#[derive(Debug)]
pub struct Tunnel {
    wishes: mpsc::Sender<Wish>,
    places: Arc<Semaphore>,
    keeper: JoinHandle<()>,
}

impl Tunnel {
    /// Keeps a tunnel to this address, which holds the sandbox's token and is never shown.
    pub fn keep(url: &str) -> anyhow::Result<Self> {
        Self::keep_trusting(url, None)
    }

    /// The same; the server's certificate may also be of this authority (PEM), which no image knows.
    pub fn keep_trusting(url: &str, authority: Option<&str>) -> anyhow::Result<Self> {
        let address = Address::parse(url)?.trusting(authority);
        let (wishes, wanted) = mpsc::channel(STREAMS_MAX);
        let keeper = tokio::spawn(keep(address, wanted));
        Ok(Self { wishes, places: Arc::new(Semaphore::new(STREAMS_MAX)), keeper })
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Outward for Tunnel {
    type Stream = Carried;

    async fn open(&self, line: Line) -> io::Result<Carried> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let kind = match line {
            Line::Gateway => b'g',
            Line::Egress => b'e',
        };
        let stream = open(&self.wishes, kind).await?;
        Ok(Carried { stream, _place: place })
    }
}

/// One stream of the tunnel.
#[derive(Debug)]
pub struct Carried {
    stream: Compat<yamux::Stream>,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Carried {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Carried {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// Opens a stream and says what it is for.
async fn open(wishes: &mpsc::Sender<Wish>, kind: u8) -> io::Result<Compat<yamux::Stream>> {
    let (wish, granted) = oneshot::channel();
    let opening = async {
        wishes.send(wish).await.map_err(|_| away())?;
        let mut stream = granted.await.map_err(|_| away())??.compat();
        stream.write_all(&[kind]).await?;
        stream.flush().await?;
        Ok(stream)
    };
    timeout(OPEN_WITHIN, opening).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

fn away() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the tunnel is down")
}

/// Connects again and again.
async fn keep(address: Address, mut wanted: mpsc::Receiver<Wish>) {
    let mut pause = PAUSE_FIRST;
    let mut complained = false;
    loop {
        let began = Instant::now();
        match refusing(&mut wanted, dial::dial(&address)).await {
            Ok(stream) => {
                complained = false;
                tracing::info!(server = address.shown(), "the tunnel is up");
                drive(stream, &mut wanted).await;
                tracing::warn!(server = address.shown(), "the tunnel broke");
            }
            // Once: it may be away for long.
            Err(error) if !complained => {
                complained = true;
                tracing::warn!(server = address.shown(), error = format!("{error:#}"), "no tunnel");
            }
            Err(_) => {}
        }
        if began.elapsed() >= STEADY {
            pause = PAUSE_FIRST;
        }
        refusing(&mut wanted, sleep(pause)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Does something while there is no tunnel: who wants a stream is told at once.
async fn refusing<T>(wanted: &mut mpsc::Receiver<Wish>, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = work.as_mut() => return done,
            Some(wish) = wanted.recv() => drop(wish.send(Err(away()))),
        }
    }
}

/// Carries streams until the connection breaks or stops answering.
async fn drive(stream: dial::Dialled, wanted: &mut mpsc::Receiver<Wish>) {
    let mut config = yamux::Config::default();
    config.set_max_num_streams(STREAMS_KNOWN_MAX).set_max_connection_receive_window(Some(WINDOW_BYTES));
    let mut connection = yamux::Connection::new(stream.compat(), config, yamux::Mode::Client);
    let (own_wishes, mut own_wanted) = mpsc::channel(1);
    let deaf = CancellationToken::new();
    let pinging = tokio::spawn(ping(own_wishes, deaf.clone()));
    let mut waiting = VecDeque::new();
    tokio::select! {
        () = poll_fn(|cx| poll_streams(&mut connection, &mut [&mut own_wanted, wanted], &mut waiting, cx)) => {}
        () = deaf.cancelled() => {}
    }
    pinging.abort();
}

/// Moves bytes and opens streams; ready when the connection is over.
fn poll_streams(
    connection: &mut Connection,
    wanted: &mut [&mut mpsc::Receiver<Wish>],
    waiting: &mut VecDeque<Wish>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        match connection.poll_next_inbound(cx) {
            // The server opens none; one that does is not listened to.
            Poll::Ready(Some(Ok(stream))) => drop(stream),
            Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
            Poll::Pending => break,
        }
    }
    loop {
        if waiting.is_empty() {
            for wanted in wanted.iter_mut() {
                while let Poll::Ready(Some(wish)) = wanted.poll_recv(cx) {
                    waiting.push_back(wish);
                }
            }
        }
        // Nobody waits any more for some of them.
        while waiting.front().is_some_and(Wish::is_closed) {
            waiting.pop_front();
        }
        if waiting.is_empty() {
            return Poll::Pending;
        }
        match connection.poll_new_outbound(cx) {
            Poll::Ready(Ok(stream)) => {
                if let Some(wish) = waiting.pop_front() {
                    let _ = wish.send(Ok(stream));
                }
            }
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// Asks for an echo now and then; gives the connection up when none comes.
async fn ping(wishes: mpsc::Sender<Wish>, deaf: CancellationToken) {
    let _deaf = deaf.drop_guard();
    loop {
        let echoed = timeout(PONG_WITHIN, async {
            let mut stream = open(&wishes, b'p').await?;
            let mut answer = [0];
            stream.read_exact(&mut answer).await?;
            stream.shutdown().await
        });
        if !matches!(echoed.await, Ok(Ok(()))) {
            return;
        }
        sleep(PING_EVERY).await;
    }
}
