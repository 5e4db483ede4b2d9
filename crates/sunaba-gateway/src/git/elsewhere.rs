//! Git requests for a project whose mirror another node has: passed on to it as they are.
//!
//! The other node is told who asks, and decides: this one has only looked at the token. While it is away
//! the request is held, as the bridge holds one while this server is away.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures::TryStreamExt as _;
use http::{HeaderName, StatusCode, header};
use sunaba_nodes::wire::{ATTEMPT_HEADER, PROJECT_HEADER};
use sunaba_nodes::{Error, Nodes, Where};
use sunaba_types::NodeId;

use super::handlers::said;
use crate::{Caller, GatewayState};

/// How long a request waits for a node that is away: as long as the bridge waits for this one.
const HELD_FOR: Duration = Duration::from_secs(60 * 60);
/// What of a request's head the other node needs.
const PASSED: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::ACCEPT, HeaderName::from_static("git-protocol")];

/// Passes a request on if its mirror is elsewhere.
pub(crate) async fn pass_on(State(state): State<GatewayState>, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().cloned();
    let (Some(nodes), Some(caller)) = (&state.config.nodes, caller) else { return next.run(request).await };
    let Some(project) = &caller.project_id else { return next.run(request).await };
    match nodes.patiently(HELD_FOR, || nodes.home_of(project)).await {
        Ok(Where::Here) => next.run(request).await,
        Ok(Where::There(home)) => carry(nodes, &home, &caller, request).await,
        Err(error) => unreachable(&caller, &error),
    }
}

async fn carry(nodes: &Nodes, home: &NodeId, caller: &Caller, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let path = format!("/sandboxes/{}{path}", caller.sandbox_id);
    // Before the body is touched: it can be sent only once.
    let asked = nodes.patiently(HELD_FOR, || nodes.ask(home, head.method.clone(), &path)).await;
    let mut asked = match asked {
        Ok(asked) => asked.header(ATTEMPT_HEADER, caller.attempt),
        Err(error) => return unreachable(caller, &error),
    };
    if let Some(project) = &caller.project_id {
        asked = asked.header(PROJECT_HEADER, project.as_str());
    }
    for name in PASSED {
        if let Some(value) = head.headers.get(&name) {
            asked = asked.header(name, value);
        }
    }
    let asked = asked.body(reqwest::Body::wrap_stream(body.into_data_stream()));
    match asked.send().await {
        Ok(answer) => passed_back(answer),
        Err(error) => {
            tracing::warn!(sandbox_id = %caller.sandbox_id, error = %error.without_url(), "a git request was cut off");
            said(StatusCode::BAD_GATEWAY, "the node that has the repository went away; try again")
        }
    }
}

fn passed_back(answer: reqwest::Response) -> Response {
    let mut response = Response::builder().status(answer.status());
    for name in [header::CONTENT_TYPE, header::CACHE_CONTROL] {
        if let Some(value) = answer.headers().get(&name) {
            response = response.header(name, value);
        }
    }
    let body = answer.bytes_stream().map_err(reqwest::Error::without_url);
    let built = response.body(Body::from_stream(body));
    built.unwrap_or_else(|_| said(StatusCode::BAD_GATEWAY, "another node's answer could not be read"))
}

fn unreachable(caller: &Caller, error: &Error) -> Response {
    tracing::warn!(sandbox_id = %caller.sandbox_id, %error, "a git request could not be passed on");
    said(StatusCode::SERVICE_UNAVAILABLE, &format!("{error}; try again later"))
}
