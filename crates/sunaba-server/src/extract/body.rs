//! Takes a JSON body whole, within its size and time, and within what all bodies together may hold.
//!
//! Memory is counted as the bytes arrive, not as they are announced: an announcement costs the sender
//! nothing. What was counted is given back when the handler is done with the body.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::layers::gate::Door;
use crate::layers::patience::timely;
use crate::{ApiError, AppState};

/// How long a body waits for others to be done.
const BUDGET_WAIT: Duration = Duration::from_secs(1);
/// Memory is counted in pieces of this size.
const UNIT: usize = 1024;

/// How much memory bodies may hold together.
#[derive(Debug, Clone)]
pub(crate) struct BodyBudget(Arc<Semaphore>);

impl BodyBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS))))
    }

    async fn take(&self, units: u32) -> Result<OwnedSemaphorePermit, ApiError> {
        let full =
            || ApiError::unavailable("too_much_in_flight", "too many large requests at once; try again");
        let taken = timely(BUDGET_WAIT, Arc::clone(&self.0).acquire_many_owned(units)).await;
        taken.map_err(|_| full())?.map_err(|_| full())
    }
}

/// What a body has counted so far, in one budget.
#[derive(Debug)]
struct Share {
    budget: BodyBudget,
    held: Option<OwnedSemaphorePermit>,
}

impl Share {
    async fn grow_to(&mut self, bytes: usize) -> Result<(), ApiError> {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(bytes.div_ceil(UNIT).saturating_sub(held)).unwrap_or(u32::MAX);
        if missing == 0 {
            return Ok(());
        }
        let more = self.budget.take(missing).await?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
}

/// A body and the memory that was counted for it.
#[derive(Debug)]
pub(crate) struct Whole {
    bytes: Bytes,
    _shares: Vec<Share>,
}

impl Deref for Whole {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bytes of a JSON body of at most `MAX` bytes. Whether they are JSON is found out when they are read.
#[derive(Debug)]
pub(crate) struct JsonBody<const MAX: usize>(pub(crate) Whole);

impl<const MAX: usize> FromRequest<AppState> for JsonBody<MAX> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "the body must be sent as application/json",
            ));
        }
        // Its own door's budget first: whoever fills that does not stand in everybody's way.
        let door = request.extensions().get::<Door>().map(|door| door.bodies.clone());
        let budgets = door.into_iter().chain([state.bodies.clone()]);
        let shares = budgets.map(|budget| Share { budget, held: None }).collect();
        let limit = state.config().limits.request_timeout;
        match timely(limit, collect(request.into_body(), MAX, shares)).await {
            Ok(whole) => whole.map(Self),
            Err(_) => {
                Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", "the body came too slowly"))
            }
        }
    }
}

async fn collect(mut body: Body, max: usize, mut shares: Vec<Share>) -> Result<Whole, ApiError> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|_| ApiError::new(StatusCode::BAD_REQUEST, "body_incomplete", "the body ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        let size = first.len() + all.len() + data.len();
        if size > max {
            return Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body_too_large",
                format!("the body may have at most {max} bytes"),
            ));
        }
        for share in &mut shares {
            share.grow_to(size).await?;
        }
        // Most bodies come in one piece, which is then not copied.
        if all.is_empty() && first.is_empty() && body.is_end_stream() {
            first = data;
            break;
        }
        all.extend_from_slice(&data);
    }
    let bytes = if all.is_empty() { first } else { all.freeze() };
    Ok(Whole { bytes, _shares: shares })
}

/// Strict on purpose: a page of another site can send other types without asking first.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}
