//! Takes a JSON body whole, within its size and time.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::{ApiError, AppState};

/// The bytes of a JSON body of at most `MAX` bytes. Whether they are JSON is found out when they are read.
#[derive(Debug)]
pub(crate) struct JsonBody<const MAX: usize>(pub(crate) Bytes);

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
        let limit = state.config().limits.request_timeout;
        let collected = tokio::time::timeout(limit, Limited::new(request.into_body(), MAX).collect()).await;
        let Ok(collected) = collected else {
            return Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "body_timeout",
                "the body came too slowly",
            ));
        };
        match collected {
            Ok(body) => Ok(Self(body.to_bytes())),
            Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body_too_large",
                format!("the body may have at most {MAX} bytes"),
            )),
            Err(_) => Err(ApiError::new(StatusCode::BAD_REQUEST, "body_incomplete", "the body ended early")),
        }
    }
}

/// Strict on purpose: a page of another site can send other types without asking first.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}
