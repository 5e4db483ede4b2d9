//! Lets requests in: cuts the token out of the path, recognises the caller,
//! minds the door it came through, counts it, and bounds its time.

use std::time::Duration;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{Extensions, HeaderMap, StatusCode, Uri, header, uri};
use sunaba_types::SandboxId;

use super::patience::{Patience, timely};
use super::token_path;
use crate::auth::{self, Identity, Role};
use crate::extract::BodyBudget;
use crate::{ApiError, AppState, AuthMode, internal};

/// The sandbox whose door a request came through.
#[derive(Debug, Clone)]
pub(crate) struct Door {
    pub(crate) sandbox_id: SandboxId,
    /// What the bodies that come through it may hold of the server's memory.
    pub(crate) bodies: BodyBudget,
}

impl Door {
    /// One sandbox's bodies together; two of the largest batches.
    const BODY_BYTES: usize = 2 * sunaba_types::limits::BATCH_MAX_BYTES;

    pub(crate) fn of(sandbox_id: SandboxId) -> Self {
        Self { sandbox_id, bodies: BodyBudget::new(Self::BODY_BYTES) }
    }
}

/// A token that stood in the path.
#[derive(Debug, Clone)]
pub(crate) struct PathToken(pub(crate) String);

/// Paths that anyone may ask for.
const PUBLIC: [&str; 3] = ["/healthz", "/readyz", "/api/v1/sandboxes/health"];
/// Opens its own conversation about tokens.
pub(crate) const WEBSOCKET: &str = "/api/v1/ws/events";

/// Lets a request in, or says why not.
pub(crate) async fn admit(state: &AppState, request: &mut Request) -> Result<(), ApiError> {
    take_path_token(request)?;
    let uri = request.uri().clone();
    let path = uri.path();
    if PUBLIC.contains(&path) {
        return Ok(());
    }
    if path == WEBSOCKET {
        return if state.config().serves_api { Ok(()) } else { Err(role_not_here()) };
    }
    if internal::is_internal(path) {
        return internal::admit(state, request);
    }
    let token = presented(path, request);
    let identity = recognise(state, token.as_deref(), request.headers(), request.extensions()).await?;
    if let Some(grant) = identity.sandbox() {
        // Also what is turned away below has been heard.
        state.liveness.heard(&grant.sandbox_id);
    }
    state.rates.request(&identity)?;
    // What sandboxes ask for is the same routes; theirs are answered wherever their door is.
    if path.starts_with("/api/") && identity.sandbox().is_none() && !state.config().serves_api {
        return Err(role_not_here());
    }
    if path == "/gateway" || path.starts_with("/gateway/") {
        admit_to_gateway(&identity, request)?;
    }
    request.extensions_mut().insert(identity);
    Ok(())
}

fn role_not_here() -> ApiError {
    ApiError::unavailable(
        "role_not_here",
        "this server looks after sandboxes only; ask one that has the role api",
    )
}

/// Moves a token out of the path and leaves the path that is meant.
fn take_path_token(request: &mut Request) -> Result<(), ApiError> {
    let Some((token, rest)) = token_path::split(request.uri().path()) else { return Ok(()) };
    let token = token.to_owned();
    let target = match request.uri().query() {
        Some(query) => format!("{rest}?{query}"),
        None => rest.to_owned(),
    };
    let bad = || ApiError::new(StatusCode::BAD_REQUEST, "invalid_path", "the path cannot be read");
    let mut parts = uri::Parts::from(std::mem::take(request.uri_mut()));
    parts.path_and_query = Some(target.parse().map_err(|_| bad())?);
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| bad())?;
    request.extensions_mut().insert(PathToken(token));
    Ok(())
}

/// The token of a request: in the path, in a header, or (where a browser can send no header) in the query.
fn presented(path: &str, request: &Request) -> Option<String> {
    if let Some(PathToken(token)) = request.extensions().get() {
        return Some(token.clone());
    }
    auth::from_headers(request.headers()).or_else(|| {
        path.ends_with("/events/stream").then(|| auth::from_query(request.uri().query())).flatten()
    })
}

/// Who presents this token, through which door.
pub(crate) async fn recognise(
    state: &AppState,
    token: Option<&str>,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<Identity, ApiError> {
    if let Some(Door { sandbox_id, .. }) = extensions.get() {
        return through_door(state, token, sandbox_id).await;
    }
    match (state.config().auth, token) {
        (AuthMode::Required, None) => Err(ApiError::unauthorized("a token is needed")),
        (AuthMode::Required, Some(token)) => state.tokens.identify(token).await,
        (AuthMode::Off, token) => {
            only_from_here(headers)?;
            open_identity(state, token).await
        }
    }
}

/// A sandbox reaches the server as itself or not at all, also where nobody else needs a token.
async fn through_door(
    state: &AppState,
    token: Option<&str>,
    sandbox_id: &SandboxId,
) -> Result<Identity, ApiError> {
    let token = token.ok_or_else(|| ApiError::unauthorized("a token is needed"))?;
    let identity = state.tokens.identify(token).await?;
    match identity.sandbox() {
        Some(grant) if grant.sandbox_id == *sandbox_id => Ok(identity),
        _ => Err(ApiError::forbidden("wrong_door", "this token does not belong to this sandbox")),
    }
}

/// Without authentication everyone is admin, but a worker that shows its token stays a worker, so that
/// a superseded attempt is still refused.
async fn open_identity(state: &AppState, token: Option<&str>) -> Result<Identity, ApiError> {
    let Some(token) = token else { return Ok(Identity::open()) };
    match state.tokens.identify(token).await {
        Ok(identity) if matches!(identity.role, Role::Sandbox(_)) => Ok(identity),
        Err(error) if error.status().is_server_error() => Err(error),
        Ok(_) | Err(_) => Ok(Identity::open()),
    }
}

/// Without authentication, a page of another site must not speak to this server through a browser.
fn only_from_here(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let host_ok = text(header::HOST).is_none_or(is_loopback);
    let origin_ok = text(header::ORIGIN)
        .is_none_or(|origin| origin.split_once("://").is_some_and(|(_, host)| is_loopback(host)));
    if host_ok && origin_ok {
        return Ok(());
    }
    Err(ApiError::forbidden("foreign_origin", "without authentication only this machine may ask"))
}

fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The gateway is for sandboxes, and is told which one asks.
fn admit_to_gateway(identity: &Identity, request: &mut Request) -> Result<(), ApiError> {
    let Some(grant) = identity.sandbox() else {
        return Err(ApiError::forbidden("sandboxes_only", "only a sandbox's token opens the gateway"));
    };
    request.extensions_mut().insert(sunaba_gateway::Caller {
        sandbox_id: grant.sandbox_id.clone(),
        project_id: grant.project_id.clone(),
        attempt: grant.attempt,
    });
    Ok(())
}

/// How long the answer's head may take; none where the handler keeps its own time.
pub(crate) fn patience(state: &AppState, request: &Request) -> Option<Duration> {
    match Patience::of(request.method(), request.uri().path()) {
        Patience::Own => None,
        Patience::Long(limit) => Some(limit),
        Patience::Ordinary => Some(state.config().limits.request_timeout),
    }
}

/// The answer, if it comes in time.
pub(crate) async fn within(limit: Duration, answer: impl Future<Output = Response>) -> Response {
    match timely(limit, answer).await {
        Ok(response) => response,
        Err(_) => ApiError::unavailable("timeout", "this took too long; try again").into_response(),
    }
}
