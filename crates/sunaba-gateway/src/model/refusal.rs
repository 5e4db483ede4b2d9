//! Answers that no model gave, in the words of the dialect that was asked in.

use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

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

    pub(crate) fn too_large(error: &BytesRejection) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", error.body_text())
    }

    pub(crate) fn unavailable() -> Self {
        Self::from(NoStanding::Store(sunaba_store::Error::Unavailable("not answering".into())))
    }

    pub(crate) fn response(&self, dialect: &dyn Dialect) -> Response {
        (self.status, axum::Json(dialect.error(&self.kind, &self.message))).into_response()
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
