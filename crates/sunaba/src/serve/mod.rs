//! `sunaba serve`: puts the parts together and runs them until it is told to stop.
//!
//! Start: configuration, log, lock on the data directory, socket, store (with its migrations), admin
//! token, parts, announcement. A failure at any step ends the start with one clear line. Stop (SIGTERM
//! or SIGINT): no new connection, requests in work finish, everything is committed; after
//! [`DRAIN_WITHIN`], or at a second signal, what is left is dropped. Sandboxes live on.

mod announce;
mod bus;
mod compose;
mod elsewhere;
mod gateway;
pub(crate) mod lock;
mod logging;
mod node;
pub(crate) mod providers;
mod sources;
mod store;
mod worker_program;

use std::fs::{DirBuilder, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::announce::Announced;
use self::compose::Parts;
use self::lock::DataDirLock;
use crate::client::{Announcement, TOKEN_FILE};
use crate::config::{AuthMode, Config, Outside};
use crate::failure::{Failure, Outcome};
use crate::{config, output};

/// How long stopping may take.
const DRAIN_WITHIN: Duration = Duration::from_secs(10);

/// Runs the server until it is told to stop.
pub(crate) async fn run(outside: &Outside, json: bool) -> Outcome {
    let loaded = config::load(outside)?;
    logging::install(&loaded.config)?;
    for key in loaded.passwords_in_flags() {
        tracing::warn!(
            key,
            "the password is in the list of processes; set it in the environment or a file instead"
        );
    }
    let config = loaded.config;
    let mut signals = Signals::listen()?;
    make_private_dir(&config.data_dir)?;
    let mut lock = DataDirLock::take(&config.data_dir)?;
    let listener = bind(config.listen).await?;
    let address = listener.local_addr()?;

    let stop = CancellationToken::new();
    let parts = Parts::build(&config, listener, &stop).await?;
    let mut running = parts.start(&stop);

    let announcement =
        Announcement { url: format!("http://{}", reachable(address)), pid: std::process::id() };
    lock.note(&announcement)?;
    let announced = Announced::write(&config.data_dir, &announcement)?;
    say_hello(&config, &announcement, json);

    let overtaken = tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, "stopping");
            None
        }
        taken = running.overtaken() => {
            tracing::error!(%taken, "stopping");
            Some(taken)
        }
    };
    drop(announced);
    stop.cancel();
    tokio::select! {
        drained = tokio::time::timeout(DRAIN_WITHIN, running.stopped()) => match drained {
            Ok(()) => tracing::info!("stopped"),
            Err(_) => tracing::warn!(seconds = DRAIN_WITHIN.as_secs(), "stopped without waiting any longer"),
        },
        _ = signals.next() => tracing::warn!("stopped at once by a second signal"),
    }
    drop(lock);
    match overtaken {
        None => Ok(ExitCode::SUCCESS),
        Some(taken) => Err(Failure::Other(taken.into())),
    }
}

pub(crate) fn make_private_dir(dir: &Path) -> Outcome<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| {
        Failure::other(format!("cannot make the data directory {}: {error}", dir.display()))
    })?;
    close_to_others(dir)
        .map_err(|error| Failure::other(format!("cannot close {} to others: {error}", dir.display())))?
}

/// A directory that was there before may be open to others; what a server keeps is for its user alone.
fn close_to_others(dir: &Path) -> std::io::Result<Outcome<()>> {
    const STICKY: u32 = 0o1000;
    let mode = std::fs::metadata(dir)?.permissions().mode();
    if mode & STICKY != 0 {
        let text =
            format!("{} is shared by everybody; name a directory of its own with --data", dir.display());
        return Ok(Err(Failure::usage(text)));
    }
    if mode & 0o077 != 0 {
        std::fs::set_permissions(dir, Permissions::from_mode(0o700))?;
        tracing::warn!(dir = %dir.display(), "the data directory was open to others; it is closed now");
    }
    Ok(Ok(()))
}

async fn bind(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::other(match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("{address} is in use by another program; choose another address with --listen")
            }
            std::io::ErrorKind::AddrNotAvailable => {
                format!("{address} is not an address of this machine; choose another with --listen")
            }
            std::io::ErrorKind::PermissionDenied => {
                format!("this user may not listen on {address}; choose a port from 1024 up with --listen")
            }
            _ => format!("cannot listen on {address}: {error}"),
        })
    })
}

/// Where a client on this machine connects to: "every address" is none to connect to.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => {
            SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, v4.port()))
        }
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, v6.port()))
        }
        other => other,
    }
}

fn say_hello(config: &Config, announcement: &Announcement, json: bool) {
    let shown = config.public_url.as_deref().unwrap_or(&announcement.url);
    let node = config.node_address.as_deref().unwrap_or(&announcement.url);
    let data_dir = config.data_dir.display();
    tracing::info!(url = shown, %data_dir, roles = %config.roles, node_address = node, "ready");
    if json {
        output::json(announcement);
        return;
    }
    output::line(&format!("sunaba is listening on {shown}"));
    match config.auth {
        AuthMode::Required => {
            output::line(&format!("admin token in {}", config.data_dir.join(TOKEN_FILE).display()));
        }
        AuthMode::Off => output::line("no token is needed; everybody on this machine is admin"),
    }
}

/// The signals that stop the server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Outcome<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
