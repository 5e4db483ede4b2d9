//! What a request is told when it cannot be done: RFC 9457 problem details.
//!
//! [`ApiError`] is the only error a handler returns. Its `detail` is safe to
//! show; the cause of an inner failure is logged once, here, and never sent.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

/// One field that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// The field's name, with its place in a list where that matters.
    pub field: String,
    /// What is wrong with it.
    pub detail: String,
}

/// The body of every error.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// A URN made of the code.
    #[serde(rename = "type")]
    pub problem_type: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, for people.
    pub detail: String,
    /// What happened, for programs; stable.
    pub code: String,
    /// The fields at fault, for a validation error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// Why a request was not done.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    code: Cow<'static, str>,
    detail: String,
    errors: Vec<FieldError>,
    retry_after_seconds: Option<u32>,
}

impl ApiError {
    /// An error with a stable code.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code: Cow::Borrowed(code),
            detail: detail.into(),
            errors: Vec::new(),
            retry_after_seconds: None,
        }
    }

    /// Fields at fault.
    pub fn validation(errors: Vec<FieldError>) -> Self {
        let names: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        let detail = format!("these fields are not valid: {}", names.join(", "));
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_failed", detail) }
    }

    /// One field at fault.
    pub fn field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::validation(vec![FieldError { field: field.into(), detail: detail.into() }])
    }

    /// There is no such thing, or the caller may not know that there is.
    pub fn not_found(what: &str, id: impl std::fmt::Display) -> Self {
        Self {
            code: Cow::Owned(format!("{what}_not_found")),
            ..Self::new(StatusCode::NOT_FOUND, "", format!("there is no {what} {id}"))
        }
    }

    /// The caller may not do this.
    pub fn forbidden(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }

    /// The caller did not prove who it is.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    /// Try again later.
    pub fn unavailable(code: &'static str, detail: impl Into<String>) -> Self {
        Self { retry_after_seconds: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, code, detail) }
    }

    /// Slow down.
    pub fn too_many(code: &'static str, detail: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self {
            retry_after_seconds: Some(retry_after_seconds.max(1)),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, code, detail)
        }
    }

    /// Something is wrong with the server; the cause was logged where it was seen.
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "something went wrong here")
    }

    /// The same with what is at fault named.
    #[must_use]
    pub fn with_errors(mut self, errors: Vec<FieldError>) -> Self {
        self.errors = errors;
        self
    }

    /// The status it is answered with.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Its stable code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// What happened, for people, with the fields at fault.
    pub fn detail(&self) -> String {
        let mut text = self.detail.clone();
        for error in &self.errors {
            text.push_str(&format!("; {} {}", error.field, error.detail));
        }
        text
    }
}

impl From<sunaba_store::Error> for ApiError {
    fn from(error: sunaba_store::Error) -> Self {
        use sunaba_store::Error as E;
        match error {
            E::NotFound { what, id } => Self::not_found(what, id),
            E::Conflict { code, detail } => Self::new(StatusCode::CONFLICT, code, detail),
            E::Full { code, detail } => Self::too_many(code, detail, 1),
            E::Unavailable(cause) => {
                tracing::warn!(error = %cause, "the store is not available");
                Self::unavailable("store_unavailable", "the store is not available; try again")
            }
            E::Backend(cause) => {
                tracing::error!(error = %cause, "the store failed");
                Self::internal()
            }
        }
    }
}

impl From<sunaba_nodes::Error> for ApiError {
    fn from(error: sunaba_nodes::Error) -> Self {
        use sunaba_nodes::Error as E;
        match error {
            E::Store(error) => error.into(),
            away @ (E::Away { .. } | E::Gone(_)) => Self::unavailable("node_away", away.to_string()),
            E::Refused { status, detail, .. } => {
                tracing::warn!(status, detail, "another node refused");
                Self::unavailable("node_refused", "the node that has this did not give it; try again")
            }
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let problem = Problem {
            problem_type: format!("urn:sunaba:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code.into_owned(),
            errors: self.errors,
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer, Basic realm=\"sunaba\""));
        }
        response
    }
}
