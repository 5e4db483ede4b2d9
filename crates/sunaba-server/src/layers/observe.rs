//! The outermost layer: request id, log line, headers that every answer carries.
//!
//! Logs the path without its query and with tokens cut out; never a header.

use std::time::Instant;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::token_path;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Headers set on every answer that does not set them itself.
const ALWAYS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::CACHE_CONTROL, "no-store"),
];

pub(crate) async fn observe(request: Request, next: Next) -> Response {
    let request_id = request_id(request.headers());
    let method = request.method().clone();
    let path = token_path::redact(request.uri().path());
    let started = Instant::now();
    let mut response = next.run(request).await;
    let status = response.status();
    let elapsed_ms = started.elapsed().as_secs_f64() * 1000.0;
    if status.is_server_error() {
        tracing::warn!(%method, path, status = status.as_u16(), elapsed_ms, request_id, "request failed");
    } else {
        tracing::debug!(%method, path, status = status.as_u16(), elapsed_ms, request_id, "request");
    }
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        headers.insert(REQUEST_ID, value);
    }
    response
}

/// The caller's id for the request if it is short and plain, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let plain = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    match given.filter(plain) {
        Some(id) => id.to_owned(),
        None => uuid::Uuid::now_v7().simple().to_string(),
    }
}
