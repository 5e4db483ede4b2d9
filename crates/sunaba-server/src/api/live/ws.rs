//! `GET /api/v1/ws/events`: opens the WebSocket.
//!
//! A bad or missing token is told on the open socket (one frame, close 4401),
//! because a browser shows a page nothing of a refused upgrade.

use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::extract::{Request, State};
use axum::response::Response;
use axum::{RequestPartsExt as _, extract::FromRequestParts as _};
use http::StatusCode;

use super::session::{Entrance, Session};
use crate::auth::{from_headers, from_query};
use crate::extract::Params;
use crate::extract::list::parse_position;
use crate::layers::gate::PathToken;
use crate::{ApiError, AppState, Filters};

/// The largest frame a client may send.
const FRAME_MAX: usize = 256 * 1024;
/// How much is read from a client at once. The buffer is kept for each reader and cleared before every look
/// for a frame, and readers say little: the library's 128 KiB cost more than everything else in a fan-out.
const READ_BUFFER: usize = 2 * 1024;

/// Published events, live, from a position on.
#[utoipa::path(get, path = "/api/v1/ws/events", tag = "live", operation_id = "watch_events",
    params(("event_types" = Option<String>, Query, description = "A comma list"),
        ("entity_types" = Option<String>, Query, description = "A comma list"),
        ("entity_ids" = Option<String>, Query, description = "A comma list"),
        ("after" = Option<i64>, Query, minimum = 0, description = "A feed position to go on from"),
        ("token" = Option<String>, Query)),
    responses((status = 101, description = "The WebSocket is open"), (status = 426, description = "Ask for a WebSocket",
        body = crate::Problem, content_type = "application/problem+json")))]
pub(crate) async fn ws(State(state): State<AppState>, request: Request) -> Result<Response, ApiError> {
    let (mut parts, _body) = request.into_parts();
    let mut params = Params::from_request_parts(&mut parts, &state).await?;
    let filters =
        Filters::new(params.list("event_types"), params.list("entity_types"), params.list("entity_ids"));
    let after = params.parsed("after", |text| parse_position(&text));
    params.finish()?;
    let upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection> = parts.extract().await;
    let upgrade = upgrade.map_err(|_| {
        ApiError::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", "this address speaks WebSocket only")
    })?;
    let token = match parts.extensions.get() {
        Some(PathToken(token)) => Some(token.clone()),
        None => from_headers(&parts.headers).or_else(|| from_query(parts.uri.query())),
    };
    // Fixed before the upgrade is answered: what is written once the client knows that it is connected comes after.
    let head = state.hub.head();
    let entrance = Entrance { token, headers: parts.headers, extensions: parts.extensions };
    let tasks = state.tasks.clone();
    let session = Session::new(state, filters, after, head);
    Ok(upgrade
        .read_buffer_size(READ_BUFFER)
        .max_message_size(FRAME_MAX)
        .max_frame_size(FRAME_MAX)
        .on_upgrade(move |socket| tasks.track_future(session.run(socket, entrance))))
}
