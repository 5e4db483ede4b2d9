//! Reads the ids in a path. One that cannot be an id is 422, one that is not text 400.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use http::StatusCode;
use http::request::Parts;
use sunaba_types::{BlobHash, IdError, ProjectId, QuestionId, SandboxId, validate_id};

use crate::{ApiError, AppState};

async fn segment(parts: &mut Parts, state: &AppState, name: &str) -> Result<String, ApiError> {
    let Path(mut segments) = Path::<HashMap<String, String>>::from_request_parts(parts, state)
        .await
        .map_err(|_| ApiError::new(StatusCode::BAD_REQUEST, "invalid_path", "the path is not valid UTF-8"))?;
    segments.remove(name).ok_or_else(ApiError::internal)
}

/// The `{id}` of a path.
#[derive(Debug)]
pub(crate) struct IdPath<T>(pub(crate) T);

impl<T: TryFrom<String, Error = IdError> + Send> FromRequestParts<AppState> for IdPath<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let raw = segment(parts, state, "id").await?;
        T::try_from(raw).map(Self).map_err(|error| ApiError::field("id", error.to_string()))
    }
}

/// The `{hash}` of a path.
#[derive(Debug)]
pub(crate) struct BlobPath(pub(crate) BlobHash);

impl FromRequestParts<AppState> for BlobPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let raw = segment(parts, state, "hash").await?;
        BlobHash::try_from(raw).map(Self).map_err(|error| ApiError::field("hash", error))
    }
}

/// The `{id}` and `{question}` of a path to a sandbox's question.
#[derive(Debug)]
pub(crate) struct QuestionPath {
    pub(crate) sandbox: SandboxId,
    pub(crate) question: QuestionId,
}

impl FromRequestParts<AppState> for QuestionPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let IdPath(sandbox) = IdPath::from_request_parts(parts, state).await?;
        let raw = segment(parts, state, "question").await?;
        let question =
            QuestionId::parse(raw).map_err(|error| ApiError::field("question", error.to_string()))?;
        Ok(Self { sandbox, question })
    }
}

/// The `{id}` and `{session_id}` of a path to a conversation.
#[derive(Debug)]
pub(crate) struct SessionPath {
    pub(crate) sandbox: SandboxId,
    pub(crate) session: String,
}

impl FromRequestParts<AppState> for SessionPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let IdPath(sandbox) = IdPath::from_request_parts(parts, state).await?;
        let session = segment(parts, state, "session_id").await?;
        validate_id(&session).map_err(|error| ApiError::field("session_id", error.to_string()))?;
        Ok(Self { sandbox, session })
    }
}

/// The longest name of a secret.
const SECRET_NAME_CHARS: usize = 100;

/// The `{id}` and `{name}` of a path to a project's secret.
#[derive(Debug)]
pub(crate) struct SecretPath {
    pub(crate) project: ProjectId,
    pub(crate) name: String,
}

impl FromRequestParts<AppState> for SecretPath {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let IdPath(project) = IdPath::from_request_parts(parts, state).await?;
        let name = segment(parts, state, "name").await?;
        if !is_secret_name(&name) {
            let detail = format!(
                "must begin with a letter A-Z and hold A-Z, 0-9 and _ only, at most {SECRET_NAME_CHARS} characters"
            );
            return Err(ApiError::field("name", detail));
        }
        Ok(Self { project, name })
    }
}

fn is_secret_name(name: &str) -> bool {
    name.len() <= SECRET_NAME_CHARS
        && name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}
