//! The routes for other nodes: what only this one has, for those that share its database.
//!
//! They are opened by the nodes' token alone, never by a person's or a sandbox's, and never through a
//! sandbox's door. They are no part of the documented API and change with the program's version: a node
//! asks only for what the oldest version that may still run can give.

mod blob;
mod duties;
mod sandbox;

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use sunaba_nodes::wire::{NODE_HEADER, PREFIX};

use crate::auth::from_headers;
use crate::layers::gate::Door;
use crate::{ApiError, AppState};

/// Whether a path is one of these.
pub(crate) fn is_internal(path: &str) -> bool {
    path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Lets another node in, and nobody else.
pub(crate) fn admit(state: &AppState, request: &Request) -> Result<(), ApiError> {
    let refused = || ApiError::unauthorized("these addresses are for the other nodes of this installation");
    let nodes = state.parts.nodes.as_ref().ok_or_else(refused)?;
    if request.extensions().get::<Door>().is_some() {
        return Err(refused());
    }
    let shown = from_headers(request.headers()).ok_or_else(refused)?;
    // Compared by hash, so that how long it takes says nothing about the token.
    if Sha256::digest(shown) != Sha256::digest(nodes.token().expose_secret()) {
        return Err(refused());
    }
    // Git names the node in the path, everybody else in a header.
    let meant = request.headers().get(NODE_HEADER).map(|value| value.as_bytes());
    if meant.is_some_and(|meant| meant != nodes.me().as_str().as_bytes()) {
        return Err(wrong_node());
    }
    Ok(())
}

/// An address that came to belong to another node; whoever asks learns the right one in a moment.
fn wrong_node() -> ApiError {
    ApiError::unavailable("wrong_node", "this is another node than the one that is meant; try again")
}

async fn node() -> &'static str {
    "here"
}

/// Everything below [`PREFIX`] but git, which the gateway serves.
pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/node", get(node))
        .route("/blobs/{hash}", get(blob::blob))
        .route("/sandboxes/{id}/ground", post(duties::lay_ground))
        .route("/sandboxes/{id}/publish", post(duties::publish))
        .route("/sandboxes/{id}/diff", get(sandbox::diff))
        .route("/sandboxes/{id}/patch", get(sandbox::patch))
        .route("/sandboxes/{id}/show", get(sandbox::show))
        .route("/sandboxes/{id}/output", get(sandbox::output))
        .route("/sandboxes/{id}/usage", get(sandbox::usage))
}
