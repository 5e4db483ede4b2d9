//! Counts and times requests by route. Sits behind routing, because it needs the route's name.
//!
//! Each route has a service of its own, which remembers its numbers by method and status: to look them up by all
//! their names would cost every request more than to count it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::{Method, StatusCode};
use metrics::{Counter, Histogram};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::telemetry;

/// Measures whatever it is laid around.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measure;

impl<S> Layer<S> for Measure {
    type Service = Measured<S>;

    fn layer(&self, inner: S) -> Measured<S> {
        Measured { inner, numbers: Arc::default() }
    }
}

/// A route that is measured.
#[derive(Debug, Clone)]
pub(crate) struct Measured<S> {
    inner: S,
    numbers: Arc<Numbers>,
}

impl<S: Service<Request, Response = Response>> Service<Request> for Measured<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Measuring<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Measuring {
            numbers: Arc::clone(&self.numbers),
            route: request.extensions().get().cloned(),
            method: name_of(request.method()),
            started: Instant::now(),
            inner: self.inner.call(request),
        }
    }
}

pin_project! {
    /// An answer that is waited for.
    pub(crate) struct Measuring<F> {
        #[pin]
        inner: F,
        numbers: Arc<Numbers>,
        route: Option<MatchedPath>,
        method: &'static str,
        started: Instant,
    }
}

impl<F: Future<Output = Result<Response, E>>, E> Future for Measuring<F> {
    type Output = Result<Response, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.inner.poll(cx));
        if let Ok(response) = &answer {
            let number = this.numbers.of(this.route.as_ref(), this.method, response.status());
            number.count(this.started.elapsed().as_secs_f64());
        }
        Poll::Ready(answer)
    }
}

/// What was counted so far, by method and status.
#[derive(Debug, Default)]
struct Numbers(RwLock<HashMap<(&'static str, StatusCode), Number>>);

#[derive(Debug, Clone)]
struct Number {
    requests: Counter,
    seconds: Histogram,
}

impl Number {
    fn count(&self, seconds: f64) {
        self.requests.increment(1);
        self.seconds.record(seconds);
    }
}

impl Numbers {
    fn of(&self, route: Option<&MatchedPath>, method: &'static str, status: StatusCode) -> Number {
        let key = (method, status);
        if let Some(number) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return number.clone();
        }
        let labels = [
            ("route", route.map_or("other", MatchedPath::as_str).to_owned()),
            ("method", method.to_owned()),
            ("status", status.as_u16().to_string()),
        ];
        let number = Number {
            requests: metrics::counter!(telemetry::REQUESTS, &labels),
            seconds: metrics::histogram!(telemetry::REQUEST_SECONDS, &labels[..2]),
        };
        self.0.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(number).clone()
    }
}

/// A method's name; those that nobody here takes have one together, so that nobody can make us remember more.
fn name_of(method: &Method) -> &'static str {
    const NAMES: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    NAMES.into_iter().find(|name| *name == method.as_str()).unwrap_or("other")
}
