//! The one way out of a sandbox: TCP on loopback inside, the server outside.
//!
//! It has two listening sockets, one for the gateway and one for the egress
//! proxy. It forwards bytes and understands none of them. While the server is
//! away it holds connections, and it sends again what a client sent if no byte
//! of an answer has come back, so that a client of a server that restarts sees
//! one good answer and no error. It does not send again once an answer has
//! begun, for a client that has stopped sending, or for more than
//! [`REPLAY_MAX_BYTES`]; and to the egress proxy only a first request that may
//! be made twice, because behind it are strangers' servers.

mod carry;
mod replay;
mod tunnel;
mod way;

use std::net::TcpListener as StdTcpListener;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::socket::{getsockopt, sockopt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub use self::replay::REPLAY_MAX_BYTES;
pub use self::tunnel::Tunnel;
pub use self::way::{Line, Outward, Sockets};

/// Where the server is when it is not on this host: the address of the sandbox's tunnel.
pub(crate) const TUNNEL_VARIABLE: &str = "SUNABA_TUNNEL_URL";
/// The private certificate authority of that address, in PEM; there only where it has one.
pub(crate) const TUNNEL_CA_VARIABLE: &str = "SUNABA_TUNNEL_CA";
/// How long a connection to the gateway is held while the server is away.
pub const HOLD: Duration = Duration::from_secs(60 * 60);
/// How long a connection to the egress proxy is: programs that download have little patience themselves.
pub const EGRESS_HOLD: Duration = Duration::from_secs(30);
/// Connections at once on each listening socket; more wait in its queue.
const CONNECTIONS_MAX: usize = 256;

/// Runs until it is killed.
pub fn run(listen: Option<&str>, door: PathBuf) -> anyhow::Result<()> {
    let gateway = match listen {
        Some(address) => StdTcpListener::bind(address).with_context(|| format!("listen on {address}"))?,
        None => StdTcpListener::from(
            std::io::stdin().as_fd().try_clone_to_owned().context("take the listening socket")?,
        ),
    };
    let egress = listener_on_stdout().context("take the proxy's listening socket")?;
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("make the runtime")?.block_on(
        async {
            match std::env::var(TUNNEL_VARIABLE) {
                Ok(url) => {
                    let authority = std::env::var(TUNNEL_CA_VARIABLE).ok();
                    let tunnel = Tunnel::keep_trusting(&url, authority.as_deref())?;
                    serve_both(gateway, egress, tunnel).await
                }
                Err(_) => serve_both(gateway, egress, Sockets::beside(door)).await,
            }
        },
    )
}

/// The egress proxy's listening socket, when there is one: the guest hands it over as standard output.
fn listener_on_stdout() -> anyhow::Result<Option<StdTcpListener>> {
    let stdout = std::io::stdout();
    if !getsockopt(&stdout.as_fd(), sockopt::AcceptConn).unwrap_or(false) {
        return Ok(None);
    }
    Ok(Some(StdTcpListener::from(stdout.as_fd().try_clone_to_owned()?)))
}

/// Serves the gateway's listening socket, and the egress proxy's where there is one, over one way out.
pub async fn serve_both(
    gateway: StdTcpListener,
    egress: Option<StdTcpListener>,
    way: impl Outward,
) -> anyhow::Result<()> {
    let way = Arc::new(way);
    let gateway = serve(gateway, Arc::clone(&way), Line::Gateway, HOLD);
    match egress {
        Some(egress) => tokio::try_join!(gateway, serve(egress, way, Line::Egress, EGRESS_HOLD)).map(|_| ()),
        None => gateway.await,
    }
}

/// Serves a listening socket until the task is dropped.
pub async fn serve(
    listener: StdTcpListener,
    way: Arc<impl Outward>,
    line: Line,
    hold: Duration,
) -> anyhow::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener).context("the listening socket is not one")?;
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
                let way = Arc::clone(&way);
                connections.spawn(async move {
                    carry::carry(client, &*way, line, hold).await;
                    drop(place);
                });
            }
            // Out of open files, or the client left: others go on.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
