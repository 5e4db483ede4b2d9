//! Passes a plain request on and its answer back, neither of them held in memory.
//!
//! Each request has a connection of its own to the outside: one that is used
//! again may have been closed meanwhile, and a request that may have been heard
//! is not ours to repeat.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::headers::remove_hop_by_hop;
use super::refusal;
use super::request::Target;
use super::traffic::Outside;

/// How long greeting the other side may take; it is local work.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Forwards one request over a connection that is there.
pub(super) async fn forward(
    request: Request<Incoming>,
    target: &Target,
    outside: Outside,
    drivers: &Mutex<JoinSet<()>>,
) -> Response<Body> {
    let Some(request) = rewritten(request, target) else {
        return refusal::bad_request("the URL cannot be read");
    };
    let greeting = hyper::client::conn::http1::Builder::new()
        .preserve_header_case(true)
        .handshake::<_, Incoming>(TokioIo::new(outside));
    let Ok(Ok((mut sender, connection))) = timeout(HANDSHAKE_TIMEOUT, greeting).await else {
        return refusal::bad_gateway(target, "the connection could not be used");
    };
    {
        let mut drivers = drivers.lock().unwrap_or_else(PoisonError::into_inner);
        while drivers.try_join_next().is_some() {}
        drivers.spawn(async move {
            if let Err(error) = connection.await {
                tracing::trace!(%error, "a connection to the outside ended early");
            }
        });
    }
    // Bounded by the connection's own patience with silence.
    match sender.send_request(request).await {
        Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
            refusal::bad_gateway(target, "it changed the protocol, which nobody asked for")
        }
        Ok(mut answer) => {
            remove_hop_by_hop(answer.headers_mut());
            *answer.version_mut() = Version::HTTP_11;
            answer.map(Body::new)
        }
        Err(error) => refusal::bad_gateway(target, &words(&error)),
    }
}

/// The request as the server itself is to see it: its own path, its own host, nothing of this connection.
fn rewritten(mut request: Request<Incoming>, target: &Target) -> Option<Request<Incoming>> {
    let host = request.uri().authority().filter(|_| target.host.is_ok())?;
    let host = HeaderValue::from_str(host.as_str()).ok()?;
    let path = request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    remove_hop_by_hop(headers);
    // The client is told to go on as soon as its body is read here.
    headers.remove(header::EXPECT);
    headers.insert(header::HOST, host);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    Some(request)
}

fn words(error: &hyper::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
