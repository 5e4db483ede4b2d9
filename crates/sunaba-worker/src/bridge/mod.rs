//! The one way out of a sandbox: TCP on loopback inside, the server's Unix socket outside.
//!
//! It forwards bytes and understands none of them. While the server is away it
//! holds connections, and it sends again what a client sent if no byte of an
//! answer has come back, so that a client of a server that restarts sees one good
//! answer and no error. It does not send again once an answer has begun, for a
//! client that has stopped sending, or for more than [`REPLAY_MAX_BYTES`].

mod carry;
mod replay;

use std::net::TcpListener as StdTcpListener;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use self::replay::REPLAY_MAX_BYTES;

/// How long a connection is held while the server is away.
pub const HOLD: Duration = Duration::from_secs(60 * 60);
/// Connections at once; more wait in the listening queue.
const CONNECTIONS_MAX: usize = 256;

/// Runs until it is killed.
pub fn run(listen: Option<&str>, door: PathBuf) -> anyhow::Result<()> {
    let listener = match listen {
        Some(address) => StdTcpListener::bind(address).with_context(|| format!("listen on {address}"))?,
        None => StdTcpListener::from(
            std::io::stdin().as_fd().try_clone_to_owned().context("take the listening socket")?,
        ),
    };
    listener.set_nonblocking(true)?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("make the runtime")?
        .block_on(serve(listener, &door, HOLD))
}

/// Serves a listening socket until the task is dropped.
pub async fn serve(listener: StdTcpListener, door: &Path, hold: Duration) -> anyhow::Result<()> {
    let listener = TcpListener::from_std(listener).context("the listening socket is not one")?;
    let door: Arc<Path> = Arc::from(door);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned().await.context("the bridge is closed")?;
        let client = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match client {
            Ok((client, _)) => {
                let door = Arc::clone(&door);
                connections.spawn(async move {
                    carry::carry(client, &door, hold).await;
                    drop(place);
                });
            }
            // Out of open files, or the client left: others go on.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
