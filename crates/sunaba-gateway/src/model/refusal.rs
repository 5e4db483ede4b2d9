//! Answers that no model gave, in the words of the dialect that was asked in.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use crate::dialect::Dialect;
use crate::standing::NoStanding;

/// An answer that no model gave.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    kind: String,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, kind: &str, message: impl Into<String>) -> Self {
        Self { status, kind: kind.to_owned(), message: message.into() }
    }

    /// Wrong in itself: trying again would not help, and clients do not.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    pub(crate) fn too_large(max_bytes: usize) -> Self {
        let words = format!("a request has at most {max_bytes} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", words)
    }

    /// All sandboxes together ask for more than there is room for.
    pub(crate) fn busy() -> Self {
        let words = "too many large requests are under way; try again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "api_error", words)
    }

    pub(crate) fn unavailable() -> Self {
        Self::from(NoStanding::Store(sunaba_store::Error::Unavailable("not answering".into())))
    }

    pub(crate) fn response(&self, dialect: &dyn Dialect) -> Response {
        let mut response =
            (self.status, axum::Json(dialect.error(self.status, &self.kind, &self.message))).into_response();
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<NoStanding> for Refusal {
    fn from(reason: NoStanding) -> Self {
        let (status, kind) = match reason {
            NoStanding::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "api_error"),
            NoStanding::Unknown | NoStanding::Ended(_) | NoStanding::Superseded => {
                (StatusCode::FORBIDDEN, "permission_error")
            }
        };
        Self::new(status, kind, reason.to_string())
    }
}
