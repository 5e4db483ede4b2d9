//! The routes, relative to where the server nests them (`/gateway`).

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
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
    let google = Router::new()
        .route("/google", get(model::probe))
        .route("/google/", get(model::probe))
        .route("/google/v1beta/models/{wanted}", post(model::google))
        .route("/google/{*rest}", any(model::unknown_to_google))
        .layer(bounded(model::google_busy));
    let git = git_routes("").layer(from_fn_with_state(state.clone(), git::pass_on)).layer(bounded(git::busy));
    let idle = Router::new().route("/idle", get(model::idle));
    anthropic.merge(openai).merge(google).merge(git).merge(idle).with_state(state)
}

/// The git routes of a sandbox, below `base`.
fn git_routes(base: &str) -> Router<GatewayState> {
    Router::new()
        .route(&format!("{base}/git/{{project}}/info/refs"), get(git::info_refs))
        .route(&format!("{base}/git/{{project}}/git-upload-pack"), post(git::upload_pack))
        .route(&format!("{base}/git/{{project}}/git-receive-pack"), post(git::receive_pack))
        // Packs are bounded where they are read.
        .layer(DefaultBodyLimit::disable())
}

/// The routes for other nodes, relative to where the server nests them once it has seen the nodes' token:
/// whole mirrors for replicas, and what sandboxes elsewhere ask of a mirror that is here.
pub fn router_for_nodes(state: GatewayState) -> Router {
    let bound = Bound { slots: state.slots.clone(), busy: git::busy };
    let passed_on = git_routes("/sandboxes/{sandbox}")
        .layer(from_fn_with_state(bound, admission::bound))
        .route_layer(from_fn(git::know_caller));
    Router::new()
        .route("/nodes/{node}/git/{project}/info/refs", get(git::replica_refs))
        .route("/nodes/{node}/git/{project}/git-upload-pack", post(git::replica_pack))
        .route_layer(from_fn_with_state(state.clone(), git::be_meant))
        .layer(DefaultBodyLimit::disable())
        .merge(passed_on)
        .with_state(state)
}
