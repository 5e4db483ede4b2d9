//! A door for each sandbox: what it says there is known to be its own.
//!
//! For a sandbox on this host the door is a directory that is bound into it,
//! with a Unix socket for the server's routes and, where there is an egress
//! proxy, a second one for that. For a sandbox elsewhere the tunnel hands over
//! its streams one by one. Either way the same server answers, with the
//! sandbox's id attached to every request, so that a token of another sandbox
//! is refused; and closing the door ends what runs through it.

mod egress;

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use sunaba_types::SandboxId;
use sunaba_types::shim::{DOOR_SOCKET, EGRESS_SOCKET};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::App;
use crate::counted::counted;
use crate::descriptors;
use crate::layers::gate::Door;
use crate::serve::{accept_loop, connection};

/// Most egress connections of one sandbox; each needs a second one to the outside.
const EGRESS_MOST: usize = 64;
/// How long a stream waits for a place before it is turned away.
const PLACE_WAIT: Duration = Duration::from_secs(30);
/// How long closing a door waits for what ran through it.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// A connection, whatever carries it.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// A connection whose carrier is nobody's concern.
pub type BoxedStream = Box<dyn ByteStream>;

/// Serves streams that come through a sandbox's door.
#[async_trait]
pub trait StreamHandler: std::fmt::Debug + Send + Sync + 'static {
    /// Serves one stream to its end. Dropping the future ends everything that it began.
    async fn handle(&self, id: SandboxId, stream: BoxedStream);

    /// The sandbox's door is closed and its streams are over.
    async fn closed(&self, id: &SandboxId);

    /// All doors are closed for good.
    async fn drained(&self);
}

/// What one sandbox's streams share.
#[derive(Debug)]
struct Passage {
    door: Door,
    gateway_places: Arc<Semaphore>,
    egress_places: Arc<Semaphore>,
    egress_most: usize,
    place_wait: Duration,
    /// Cancelled when the door closes.
    stop: CancellationToken,
    streams: TaskTracker,
}

#[derive(Debug)]
struct Opened {
    sockets: Vec<PathBuf>,
    /// Kept, so that whoever closes the door finds it.
    passage: Arc<Passage>,
}

/// Opens and closes doors.
#[derive(Debug, Clone)]
pub struct Doors {
    app: App,
    egress: Option<Arc<dyn StreamHandler>>,
    open: Arc<Mutex<HashMap<SandboxId, Opened>>>,
    /// Passages in use, also of sandboxes that have no door on this host.
    passages: Arc<Mutex<HashMap<SandboxId, Weak<Passage>>>>,
    place_wait: Duration,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl Doors {
    /// Doors to this server; all close with `shutdown`.
    pub fn new(app: App, shutdown: CancellationToken) -> Self {
        let tasks = TaskTracker::new();
        let (open, passages, place_wait) = (Arc::default(), Arc::default(), PLACE_WAIT);
        Self { app, egress: None, open, passages, place_wait, shutdown, tasks }
    }

    /// Changes how long a connection waits for one of its sandbox's places.
    #[must_use]
    pub const fn with_place_wait(mut self, place_wait: Duration) -> Self {
        self.place_wait = place_wait;
        self
    }

    /// Lets sandboxes out through this proxy. Without it there is no second socket.
    #[must_use]
    pub fn with_egress(mut self, egress: Arc<dyn StreamHandler>) -> Self {
        self.egress = Some(egress);
        self
    }

    /// Listens in `door_dir`, on sockets that any user may connect to (the directory is the sandbox's
    /// own). A socket left behind by an earlier server is replaced; opening twice is harmless.
    pub async fn open(&self, id: &SandboxId, door_dir: &Path) -> io::Result<()> {
        let mut sockets = vec![door_dir.join(DOOR_SOCKET)];
        if self.egress.is_some() {
            sockets.push(door_dir.join(EGRESS_SOCKET));
        }
        if self.is_open(id, &sockets) {
            return Ok(());
        }
        self.shut(id).await;
        tokio::fs::create_dir_all(door_dir).await?;
        let gateway = listen(&door_dir.join(DOOR_SOCKET)).await?;
        let egress = match &self.egress {
            Some(handler) => Some((listen(&door_dir.join(EGRESS_SOCKET)).await?, Arc::clone(handler))),
            None => None,
        };
        let passage = self.passage(id);
        let opened = Opened { sockets, passage: Arc::clone(&passage) };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), opened);
        if let Some((listener, handler)) = egress {
            let passage = Arc::clone(&passage);
            self.tasks.spawn(async move { egress::take(&listener, &passage, &handler).await });
        }
        let app = self.app.clone();
        let most = descriptors::door_connections();
        self.tasks.spawn(async move {
            accept_loop(&gateway, &app, Some(&passage.door), most, &passage.stop).await;
        });
        Ok(())
    }

    /// Serves a stream that a sandbox's tunnel carried: the server's routes. Returns when it is over.
    pub async fn serve_gateway_stream(
        &self,
        id: &SandboxId,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) {
        let passage = self.passage(id);
        let Some(place) = passage.place(&passage.gateway_places).await else { return };
        let stream = counted(stream, place);
        let serving = connection(stream, self.app.clone(), Some(passage.door.clone()), passage.stop.clone());
        passage.streams.track_future(serving).await;
    }

    /// Serves a stream that a sandbox's tunnel carried: the egress proxy. Returns when it is over.
    pub async fn serve_egress_stream(
        &self,
        id: &SandboxId,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) {
        let Some(handler) = &self.egress else { return };
        self.passage(id).admit(handler, stream).await;
    }

    /// Stops listening, ends what runs through the door and removes the sockets.
    pub async fn close(&self, id: &SandboxId) {
        self.shut(id).await;
        if let Some(egress) = &self.egress {
            // Also where nothing is open: a sandbox elsewhere may have hung up already.
            egress.closed(id).await;
        }
    }

    async fn shut(&self, id: &SandboxId) {
        let opened = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        let used = self.passages().remove(id).and_then(|passage| passage.upgrade());
        let (sockets, own) = opened.map(|opened| (opened.sockets, opened.passage)).unzip();
        let Some(passage) = own.or(used) else { return };
        passage.stop.cancel();
        for socket in sockets.into_iter().flatten() {
            // The sandbox's directory may be gone already.
            let _ = tokio::fs::remove_file(&socket).await;
        }
        passage.streams.close();
        let _ = timeout(CLOSE_WAIT, passage.streams.wait()).await;
    }

    /// Waits until every door is closed, after the shutdown token was cancelled.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        if let Some(egress) = &self.egress {
            egress.drained().await;
        }
    }

    fn is_open(&self, id: &SandboxId, sockets: &[PathBuf]) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(id)
            .is_some_and(|opened| opened.sockets == sockets && sockets.iter().all(|socket| socket.exists()))
    }

    fn passages(&self) -> MutexGuard<'_, HashMap<SandboxId, Weak<Passage>>> {
        self.passages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sandbox's passage; a fresh one when nothing of the sandbox is under way.
    fn passage(&self, id: &SandboxId) -> Arc<Passage> {
        let mut passages = self.passages();
        if let Some(passage) = passages.get(id).and_then(Weak::upgrade) {
            return passage;
        }
        passages.retain(|_, passage| passage.strong_count() > 0);
        let most = descriptors::door_connections();
        let egress_most = most.min(EGRESS_MOST);
        let passage = Arc::new(Passage {
            door: Door::of(id.clone()),
            gateway_places: Arc::new(Semaphore::new(most)),
            egress_places: Arc::new(Semaphore::new(egress_most)),
            egress_most,
            place_wait: self.place_wait,
            stop: self.shutdown.child_token(),
            streams: TaskTracker::new(),
        });
        passages.insert(id.clone(), Arc::downgrade(&passage));
        passage
    }
}

impl Passage {
    /// Waits for a place; none when the door closes or all stay taken.
    async fn place(&self, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            () = self.stop.cancelled() => None,
            place = timeout(self.place_wait, Arc::clone(places).acquire_owned()) => place.ok()?.ok(),
        }
    }
}

/// Listens on a socket that any user may connect to, in place of whatever was there.
async fn listen(socket: &Path) -> io::Result<UnixListener> {
    match tokio::fs::remove_file(socket).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = bind(socket)?;
    tokio::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666)).await?;
    Ok(listener)
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
