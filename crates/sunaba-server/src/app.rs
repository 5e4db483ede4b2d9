//! The whole server as one thing that answers requests.
//!
//! What happens to every request happens here, around the routes: it gets an id and a line in the log, a panic becomes
//! a 500, and the gate lets it in. These are no layers of a router: they must see a request before it is routed, may
//! change its path, and each layer would cost every event a few allocations.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures::FutureExt as _;
use http::Request;
use tower::ServiceExt as _;

use crate::layers::{gate, observe};
use crate::{ApiError, AppState};

/// See the module. Cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    state: AppState,
    routes: Router,
}

impl App {
    pub(crate) const fn new(state: AppState, routes: Router) -> Self {
        Self { state, routes }
    }

    /// Answers a request, whatever it is.
    pub async fn answer(&self, request: Request<Body>) -> Response {
        let seen = observe::Seen::of(&request);
        let mut response = match AssertUnwindSafe(self.admitted(request)).catch_unwind().await {
            Ok(response) => response,
            Err(cause) => panicked(cause.as_ref()),
        };
        seen.answered(&mut response);
        response
    }

    async fn admitted(&self, mut request: Request<Body>) -> Response {
        if let Err(error) = gate::admit(&self.state, &mut request).await {
            return error.into_response();
        }
        let limit = gate::patience(&self.state, &request);
        let routed = async {
            let Ok(response) = self.routes.clone().oneshot(request).await;
            response
        };
        match limit {
            None => routed.await,
            Some(limit) => gate::within(limit, routed).await,
        }
    }
}

fn panicked(cause: &(dyn Any + Send)) -> Response {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("unknown");
    tracing::error!(panic = text, "a handler panicked");
    ApiError::internal().into_response()
}
