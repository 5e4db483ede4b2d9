//! Counts and times requests by route. Sits behind routing, because it needs the route's name.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;

use crate::telemetry;

pub(crate) async fn measure(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = request.method().as_str().to_owned();
    let started = Instant::now();
    let response = next.run(request).await;
    let labels = [
        ("route", route.unwrap_or_else(|| "other".to_owned())),
        ("method", method),
        ("status", response.status().as_u16().to_string()),
    ];
    metrics::counter!(telemetry::REQUESTS, &labels).increment(1);
    metrics::histogram!(telemetry::REQUEST_SECONDS, &labels[..2]).record(started.elapsed().as_secs_f64());
    response
}
