//! A bad line: stands between a sandbox's bridge and its server and does what networks do.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

const ERROR: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// What becomes of a connection.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// Carries everything.
    Good,
    /// Closed before a byte is carried.
    Refused,
    /// Carries for so long and is cut, in the middle of whatever it is.
    Cut(Duration),
    /// The same, and every piece comes late.
    Slow(Duration, Duration),
    /// Answered with an error that the server knows nothing of.
    Error,
    /// The server gets what is sent and answers; the answer is lost.
    AnswerLost,
    /// Nobody answers and nobody closes, for so long.
    HalfOpen(Duration),
}

impl Fate {
    fn choose(random: &mut StdRng) -> Self {
        let mut millis = |from, to| Duration::from_millis(random.random_range(from..to));
        let (cut, piece, silence) = (millis(1, 900), millis(5, 120), millis(100, 2500));
        match random.random_range(0..12) {
            0 | 1 => Self::Refused,
            2..5 => Self::Cut(cut),
            5..7 => Self::Slow(cut, piece),
            7 | 8 => Self::Error,
            9 | 10 => Self::AnswerLost,
            _ => Self::HalfOpen(silence),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Refused => "refused",
            Self::Cut(_) => "cut",
            Self::Slow(..) => "slow and cut",
            Self::Error => "error",
            Self::AnswerLost => "answer lost",
            Self::HalfOpen(_) => "half-open",
        }
    }
}

/// A line; it is closed when this is dropped.
pub(super) struct Line {
    state: Arc<State>,
    _end: DropGuard,
}

struct State {
    random: Mutex<StdRng>,
    good: AtomicBool,
    faults: Mutex<BTreeMap<&'static str, u64>>,
    server: PathBuf,
}

impl Line {
    /// Takes the place of the server's socket in a sandbox's door, for connections from now on.
    pub(super) fn between(door: &Path, random: StdRng) -> anyhow::Result<Self> {
        let (socket, server) = (door.join("gateway.sock"), door.join("server.sock"));
        std::fs::rename(&socket, &server).with_context(|| format!("move {}", socket.display()))?;
        let listener = UnixListener::bind(&socket)?;
        // As the server does it: who gets here is decided by the directory.
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666))?;
        let state = State {
            random: Mutex::new(random),
            good: AtomicBool::new(false),
            faults: Mutex::default(),
            server,
        };
        let (state, end) = (Arc::new(state), CancellationToken::new());
        let (serving, ended) = (Arc::clone(&state), end.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = serve(listener, serving) => {}
            }
        });
        Ok(Self { state, _end: end.drop_guard() })
    }

    /// From now on connections are good.
    pub(super) fn heal(&self) {
        self.state.good.store(true, Ordering::Relaxed);
    }

    /// What went wrong so far, and how often.
    pub(super) fn faults(&self) -> BTreeMap<&'static str, u64> {
        let mut faults = locked(&self.state.faults).clone();
        faults.remove(Fate::Good.name());
        faults
    }
}

impl State {
    fn fate(&self) -> Fate {
        let good = self.good.load(Ordering::Relaxed);
        let fate = if good { Fate::Good } else { Fate::choose(&mut locked(&self.random)) };
        *locked(&self.faults).entry(fate.name()).or_default() += 1;
        fate
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: UnixListener, state: Arc<State>) {
    // They end with the set, so with the line.
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let (fate, server) = (state.fate(), state.server.clone());
        connections.spawn(async move {
            // A connection that ends badly is what this is for.
            let _ = meet(fate, client, &server).await;
        });
    }
}

async fn meet(fate: Fate, mut client: UnixStream, server: &Path) -> std::io::Result<()> {
    match fate {
        Fate::Refused => Ok(()),
        Fate::HalfOpen(silence) => {
            tokio::time::sleep(silence).await;
            Ok(())
        }
        Fate::Error => {
            let mut request = vec![0; 16 * 1024];
            let _some = client.read(&mut request).await?;
            client.write_all(ERROR).await?;
            client.shutdown().await
        }
        Fate::AnswerLost => lose_answer(client, server).await,
        Fate::Good => carry(client, server, Duration::ZERO).await,
        Fate::Cut(after) => bounded(after, carry(client, server, Duration::ZERO)).await,
        Fate::Slow(after, piece) => bounded(after, carry(client, server, piece)).await,
    }
}

async fn bounded(
    after: Duration,
    carrying: impl Future<Output = std::io::Result<()>>,
) -> std::io::Result<()> {
    tokio::time::timeout(after, carrying).await.unwrap_or(Ok(()))
}

async fn carry(client: UnixStream, server: &Path, piece: Duration) -> std::io::Result<()> {
    let server = UnixStream::connect(server).await?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        ended = pump(from_client, to_server, piece) => ended,
        ended = pump(from_server, to_client, piece) => ended,
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, late: Duration) -> std::io::Result<()> {
    let mut piece = vec![0; 16 * 1024];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return Ok(());
        }
        tokio::time::sleep(late).await;
        to.write_all(&piece[..length]).await?;
    }
}

/// Carries what the client sends; when the server begins to answer, everything ends.
async fn lose_answer(client: UnixStream, server: &Path) -> std::io::Result<()> {
    let server = UnixStream::connect(server).await?;
    let ((from_client, _to_client), (mut from_server, to_server)) =
        (client.into_split(), server.into_split());
    let mut first = [0; 1];
    tokio::select! {
        ended = pump(from_client, to_server, Duration::ZERO) => ended,
        answered = from_server.read(&mut first) => answered.map(drop),
    }
}
