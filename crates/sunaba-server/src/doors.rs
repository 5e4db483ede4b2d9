//! A door for each local sandbox: a Unix socket in a directory that is bound into it.
//!
//! The same router answers there, with the sandbox's id attached to every
//! request, so that a token of another sandbox is refused.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use sunaba_types::SandboxId;
use sunaba_types::shim::DOOR_SOCKET;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::descriptors;
use crate::layers::gate::Door;
use crate::serve::accept_loop;

#[derive(Debug)]
struct Opened {
    socket: PathBuf,
    stop: CancellationToken,
}

/// Opens and closes doors.
#[derive(Debug, Clone)]
pub struct Doors {
    router: Router,
    open: Arc<Mutex<HashMap<SandboxId, Opened>>>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Doors {
    /// Doors to this router; all close with `shutdown`.
    pub fn new(router: Router, shutdown: CancellationToken) -> Self {
        Self { router, open: Arc::default(), shutdown, tasks: TaskTracker::new() }
    }

    /// Listens in `door_dir`, on a socket that any user may connect to (the directory is the sandbox's
    /// own). A socket left behind by an earlier server is replaced; opening twice is harmless.
    pub async fn open(&self, id: &SandboxId, door_dir: &Path) -> io::Result<()> {
        let socket = door_dir.join(DOOR_SOCKET);
        if self.is_open(id, &socket) {
            return Ok(());
        }
        self.close(id).await;
        tokio::fs::create_dir_all(door_dir).await?;
        match tokio::fs::remove_file(&socket).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = bind(&socket)?;
        tokio::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).await?;
        let stop = self.shutdown.child_token();
        let opened = Opened { socket, stop: stop.clone() };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), opened);
        let (router, door) = (self.router.clone(), Door::of(id.clone()));
        let most = descriptors::door_connections();
        self.tasks.spawn(async move { accept_loop(&listener, &router, Some(&door), most, &stop).await });
        Ok(())
    }

    /// Stops listening and removes the socket.
    pub async fn close(&self, id: &SandboxId) {
        let opened = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Some(opened) = opened {
            opened.stop.cancel();
            // The sandbox's directory may be gone already.
            let _ = tokio::fs::remove_file(&opened.socket).await;
        }
    }

    /// Waits until every door is closed, after the shutdown token was cancelled.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn is_open(&self, id: &SandboxId, socket: &Path) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(id).is_some_and(|opened| opened.socket == socket && socket.exists())
    }
}

/// The longest path a socket address can hold on Linux, without its final NUL.
const SOCKET_PATH_MAX: usize = 107;

/// Binds, also where the path is longer than a socket address can hold.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    if socket.as_os_str().len() <= SOCKET_PATH_MAX {
        return UnixListener::bind(socket);
    }
    // Through an open directory the address is short, whatever the directory's own path is.
    let folder = std::fs::File::open(socket.parent().unwrap_or(Path::new("/")))?;
    let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
    let name = socket.file_name().unwrap_or_default();
    UnixListener::bind(Path::new(&format!("/proc/self/fd/{number}")).join(name))
}
