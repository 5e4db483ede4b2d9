//! What surrounds every request: its id, its line in the log, headers that every answer carries.
//!
//! Logs the path without its query and with tokens cut out; never a header.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};

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

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Seen {
    request_id: String,
    method: Method,
    uri: Uri,
    started: Instant,
}

impl Seen {
    pub(crate) fn of(request: &Request) -> Self {
        Self {
            request_id: request_id(request.headers()),
            method: request.method().clone(),
            uri: request.uri().clone(),
            started: Instant::now(),
        }
    }

    /// Logs the answer and gives it the headers that every one carries.
    pub(crate) fn answered(self, response: &mut Response) {
        let Self { request_id, method, uri, started } = self;
        let path = || token_path::redact(uri.path());
        let status = response.status();
        let elapsed_ms = started.elapsed().as_secs_f64() * 1000.0;
        if status.is_server_error() {
            tracing::warn!(%method, path = path(), status = status.as_u16(), elapsed_ms, request_id, "request failed");
        } else {
            tracing::debug!(%method, path = path(), status = status.as_u16(), elapsed_ms, request_id, "request");
        }
        let headers = response.headers_mut();
        // Else it grows twice.
        headers.reserve(ALWAYS.len() + 1);
        for (name, value) in ALWAYS {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
        if let Ok(value) = HeaderValue::from_str(&request_id) {
            headers.insert(REQUEST_ID, value);
        }
    }
}

/// The caller's id for the request if it is short and plain, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let plain = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    match given.filter(plain) {
        Some(id) => id.to_owned(),
        None => next_id(),
    }
}

/// One that nobody else gives: chance when the process starts, then a count. To ask for chance each time would cost
/// more than the rest of it.
fn next_id() -> String {
    static FIRST: LazyLock<u64> = LazyLock::new(|| uuid::Uuid::new_v4().as_u64_pair().1);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:016x}{:08x}", *FIRST, COUNT.fetch_add(1, Ordering::Relaxed))
}
