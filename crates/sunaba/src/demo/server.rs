//! The demonstration's server: a child of this program that ends with it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::kill;
use nix::unistd::Pid;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::client::{Client, LIVING, Place, start, wait_ready};
use crate::failure::{Failure, Outcome};

/// The address that is tried first.
const USUAL: &str = "127.0.0.1:18000";
/// The address of a free port.
const FREE: &str = "127.0.0.1:0";
/// How long it may take to stop; it gives itself 10 s.
const STOP_WITHIN: Duration = Duration::from_secs(12);
/// How often it is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A running server.
#[derive(Debug)]
pub(super) struct DemoServer {
    child: Child,
    client: Client,
    data: PathBuf,
}

impl DemoServer {
    /// Starts it on its own data directory, at the usual address or, if that is taken, at a free port.
    pub(super) async fn start(data: &Path) -> Outcome<Self> {
        let listen = if TcpListener::bind(USUAL).is_ok() { USUAL } else { FREE };
        // In a session of its own, so that Ctrl-C reaches this program alone, which stops it in order.
        let mut child = start(data, &["--listen", listen, "--detach-session"])?;
        let place = Place::DataDir { dir: data.to_owned(), token: None };
        match wait_ready(&place, data, &mut child).await {
            Ok(client) => Ok(Self { child, client, data: data.to_owned() }),
            Err(failure) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failure)
            }
        }
    }

    /// Its address.
    pub(super) fn url(&self) -> &str {
        self.client.base()
    }

    /// Waits for Ctrl-C (or the server's own end), then stops it.
    pub(super) async fn stay_up(&mut self, interrupts: &mut Interrupts) -> Outcome<()> {
        loop {
            tokio::select! {
                () = interrupts.next() => return self.stop().await,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(Failure::Unreachable(format!(
                    "the server ended ({status}); its log is in {}",
                    self.data.display()
                )));
            }
        }
    }

    /// Ends every sandbox and waits until nothing of them is left, then stops the server.
    pub(super) async fn abandon(&mut self) -> Outcome<()> {
        for sandbox in self.client.sandboxes(Some(LIVING), 100).await? {
            self.client.stop(sandbox.id.as_str()).await?;
        }
        let deadline = Instant::now() + STOP_WITHIN;
        while has_directories(&self.data.join("sandboxes")) && Instant::now() < deadline {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.stop().await
    }

    /// Asks it to stop and waits until it has.
    pub(super) async fn stop(&mut self) -> Outcome<()> {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // A server that is gone already has stopped as well.
            let _ = kill(Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
        }
        let deadline = Instant::now() + STOP_WITHIN;
        while Instant::now() < deadline {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(Failure::other("the server did not stop in time"))
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        // Whatever happened, nothing of the demonstration is left running.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A sandbox has a directory for as long as anything of it is left.
fn has_directories(dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    entries.flatten().any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

/// Ctrl-C, or being told to end.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// From now on neither ends the program by itself.
    pub(super) fn listen() -> Outcome<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
