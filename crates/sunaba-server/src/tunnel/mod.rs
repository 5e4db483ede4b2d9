//! Tunnels of sandboxes on other machines: one upgraded connection each, on which all their streams come.
//!
//! A stream begins with one byte that says what it is: `g` for the server's routes, `e` for the egress proxy
//! (both served as if they came through the sandbox's door), `p` for a ping, which is echoed. A sandbox has
//! one tunnel; a newer one takes the place of an older one, whose other end may be long gone. One that says
//! nothing for [`SILENCE`] is ended.

mod carry;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sunaba_types::SandboxId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::auth::Identity;
use crate::{ApiError, AppState, Doors};

/// What the upgraded connection speaks.
const PROTOCOL: &str = "sunaba-tunnel";
/// After this long without a new stream, pings included, nobody is at the other end.
pub(crate) const SILENCE: Duration = Duration::from_secs(90);

/// The tunnels of this server.
#[derive(Debug, Clone)]
pub struct Tunnels(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// What serves the streams; there once the server is composed.
    doors: OnceLock<Doors>,
    live: Mutex<HashMap<SandboxId, Live>>,
    next: Mutex<u64>,
    /// Changes whenever a tunnel comes or goes.
    changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Live {
    number: u64,
    stop: CancellationToken,
}

impl Default for Tunnels {
    fn default() -> Self {
        Self(Arc::new(Inner {
            doors: OnceLock::new(),
            live: Mutex::default(),
            next: Mutex::default(),
            changed: watch::Sender::new(0),
        }))
    }
}

impl Tunnels {
    /// Lets streams through these doors. Until then no tunnel is taken.
    pub fn lead_to(&self, doors: Doors) {
        // The first ones stay: a server has one set of doors.
        let _ = self.0.doors.set(doors);
    }

    /// Whether the sandbox's tunnel is up, or comes up within `patience`.
    pub async fn connected(&self, id: &SandboxId, patience: Duration) -> bool {
        let mut changed = self.0.changed.subscribe();
        let up = async {
            while !self.live().contains_key(id) {
                if changed.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        };
        tokio::time::timeout(patience, up).await.is_ok()
    }

    /// Whether the sandbox's tunnel is up.
    pub fn is_up(&self, id: &SandboxId) -> bool {
        self.live().contains_key(id)
    }

    /// Ends the sandbox's tunnel, if it has one.
    pub fn close(&self, id: &SandboxId) {
        if let Some(live) = self.live().get(id) {
            live.stop.cancel();
        }
    }

    fn live(&self) -> MutexGuard<'_, HashMap<SandboxId, Live>> {
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the sandbox's place; whoever had it is ended.
    fn enter(&self, id: &SandboxId, shutdown: &CancellationToken) -> Entered {
        let number = {
            let mut next = self.0.next.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next
        };
        let stop = CancellationToken::new();
        let older = self.live().insert(id.clone(), Live { number, stop: stop.clone() });
        if let Some(older) = older {
            older.stop.cancel();
        }
        self.0.changed.send_modify(|count| *count += 1);
        Entered { tunnels: self.clone(), id: id.clone(), number, stop, shutdown: shutdown.clone() }
    }
}

/// One tunnel's place, given back when it is over.
#[derive(Debug)]
pub(crate) struct Entered {
    tunnels: Tunnels,
    pub(crate) id: SandboxId,
    number: u64,
    /// A newer one came, or the sandbox is over.
    pub(crate) stop: CancellationToken,
    /// The server ends.
    pub(crate) shutdown: CancellationToken,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut live = self.tunnels.live();
        if live.get(&self.id).is_some_and(|live| live.number == self.number) {
            live.remove(&self.id);
        }
        drop(live);
        self.tunnels.0.changed.send_modify(|count| *count += 1);
    }
}

/// `GET /w/{token}/tunnel`: a sandbox opens its tunnel.
pub(crate) async fn open(
    State(state): State<AppState>,
    identity: Identity,
    mut request: Request,
) -> Result<Response, ApiError> {
    let Some(grant) = identity.sandbox() else {
        return Err(ApiError::forbidden("sandboxes_only", "only a sandbox's token opens a tunnel"));
    };
    if !asks_for_tunnel(request.headers()) {
        let detail = "ask for an upgrade to sunaba-tunnel";
        return Err(ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", detail));
    }
    let id = grant.sandbox_id.clone();
    let over = state.store().find_sandbox(&id).await?.is_none_or(|sandbox| sandbox.state.is_terminal());
    if over {
        return Err(ApiError::new(StatusCode::CONFLICT, "sandbox_ended", "this sandbox is over"));
    }
    let Some(doors) = state.tunnels.0.doors.get().cloned() else {
        return Err(ApiError::unavailable("no_tunnels", "this server takes no tunnels; try again"));
    };
    let upgrading = hyper::upgrade::on(&mut request);
    let (tunnels, shutdown) = (state.tunnels.clone(), state.shutdown().clone());
    state.tasks.spawn(async move {
        match upgrading.await {
            Ok(upgraded) => carry::carry(upgraded, &doors, tunnels.enter(&id, &shutdown)).await,
            Err(error) => tracing::debug!(sandbox = %id, %error, "a tunnel was not taken"),
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(PROTOCOL));
    Ok(response)
}

fn asks_for_tunnel(headers: &HeaderMap) -> bool {
    let has = |name, word: &str| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
            .is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    has(header::CONNECTION, "upgrade") && has(header::UPGRADE, PROTOCOL)
}
