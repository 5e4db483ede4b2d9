//! `PUT /api/v1/projects/{id}/secrets/{name}`: sets a secret. It is sealed before it is stored.

use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use sunaba_secrets::SecretString;
use utoipa::ToSchema;

use super::SecretView;
use crate::api::{ApiResult, ok, projects};
use crate::auth::Editor;
use crate::extract::{Fields, JsonBody, SecretPath, Text};
use crate::{ApiError, AppState};

const VALUE_BYTES: usize = 64 * 1024;
const VALUE: Text = Text { min: 1, max: VALUE_BYTES };
/// A value at its limit, every character of it escaped.
const BODY: usize = 8 * VALUE_BYTES;

/// A secret.
#[derive(Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct SecretBody {
    /// The value; it cannot be read again.
    #[schema(min_length = 1, max_length = 65_536, write_only)]
    value: String,
}

/// Sets a secret, or replaces it. Its value cannot be read again.
#[utoipa::path(put, path = "/api/v1/projects/{id}/secrets/{name}", tag = "projects", operation_id = "put_secret",
    params(("id" = String, Path), ("name" = String, Path, pattern = "^[A-Z][A-Z0-9_]{0,99}$")),
    request_body = SecretBody, responses((status = 200, body = SecretView)))]
pub(crate) async fn put(
    State(state): State<AppState>,
    Editor(identity): Editor,
    SecretPath { project, name }: SecretPath,
    JsonBody(body): JsonBody<BODY>,
) -> ApiResult {
    let mut fields = Fields::of_body(&body)?;
    fields.require("value");
    let value = fields.bounded_text("value", VALUE, VALUE_BYTES).map(SecretString::from);
    fields.finish()?;
    let value = value.ok_or_else(ApiError::internal)?;
    projects::visible(&state, &identity, &project).await?;
    let set = super::vault(&state)?.put(&project, &name, &value).await.map_err(refused)?;
    ok(&SecretView::from(set))
}

fn refused(error: sunaba_secrets::Error) -> ApiError {
    match error {
        sunaba_secrets::Error::Store(sunaba_store::Error::Full { code, detail }) => {
            ApiError::new(StatusCode::CONFLICT, code, detail)
        }
        sunaba_secrets::Error::Store(error) => error.into(),
        sunaba_secrets::Error::WrongKey(error) => {
            tracing::error!(%error, "secrets cannot be used");
            ApiError::unavailable("secrets_unavailable", error.to_string())
        }
    }
}
