//! The routes, relative to where the server nests them (`/gateway`).

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{any, get, post};

use crate::admission::{self, Bound};
use crate::{GatewayState, git, model};

/// The gateway's routes. The server puts a [`crate::Caller`] into each request first.
pub fn router(state: GatewayState) -> Router {
    let bounded = |busy: fn(String) -> Response| {
        from_fn_with_state(Bound { slots: state.slots.clone(), busy }, admission::bound)
    };
    let anthropic = Router::new()
        .route("/anthropic", get(model::probe))
        .route("/anthropic/", get(model::probe))
        .route("/anthropic/v1/messages", post(model::messages))
        .route("/anthropic/v1/messages/count_tokens", post(model::count_tokens))
        .route("/anthropic/{*rest}", any(model::unknown_to_anthropic))
        .layer(bounded(model::anthropic_busy));
    let mut openai = Router::new();
    // Clients are given the base address with the version and without.
    for base in ["/openai", "/openai/v1"] {
        openai = openai
            .route(base, get(model::probe))
            .route(&format!("{base}/"), get(model::probe))
            .route(&format!("{base}/responses"), post(model::responses))
            .route(&format!("{base}/chat/completions"), post(model::chat))
            .route(&format!("{base}/models"), get(model::models));
    }
    let openai =
        openai.route("/openai/{*rest}", any(model::unknown_to_openai)).layer(bounded(model::openai_busy));
    let git = Router::new()
        .route("/git/{project}/info/refs", get(git::info_refs))
        .route("/git/{project}/git-upload-pack", post(git::upload_pack))
        .route("/git/{project}/git-receive-pack", post(git::receive_pack))
        // Packs are bounded where they are read.
        .layer(DefaultBodyLimit::disable())
        .layer(bounded(git::busy));
    anthropic.merge(openai).merge(git).with_state(state)
}
