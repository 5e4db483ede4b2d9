//! `POST /api/v1/tokens`: the one time a secret is shown.

use axum::extract::State;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use sunaba_store::NewToken;
use sunaba_types::{ProjectId, SandboxId, TokenKind};
use utoipa::ToSchema;

use crate::api::views::TokenView;
use crate::api::{ApiResult, SMALL_BODY, created};
use crate::auth::{Admin, mint};
use crate::extract::{Fields, JsonBody, Text};
use crate::{ApiError, AppState};

/// A hundred years: long enough, and within what a timestamp can hold.
const EXPIRY_MAX_SECONDS: i64 = 100 * 365 * 24 * 3600;

/// A token to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct TokenBody {
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// `personal` (default), `admin`, `sandbox`.
    kind: Option<String>,
    /// For a personal token: `read`, `write`; both when absent.
    scopes: Option<Vec<String>>,
    /// For a personal token: ids of projects; all when absent or empty.
    projects: Option<Vec<String>>,
    /// For a sandbox token: the sandbox.
    sandbox_id: Option<String>,
    /// After this many seconds it opens nothing; never when absent.
    #[schema(minimum = 1)]
    expires_in_seconds: Option<i64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NewTokenView {
    /// The secret. It is shown this once and not stored.
    token: String,
    record: TokenView,
}

/// Makes a token and shows its secret, once.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", operation_id = "create_token",
    request_body = TokenBody, responses((status = 201, body = NewTokenView)))]
pub(crate) async fn create(
    State(state): State<AppState>,
    _: Admin,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    let (secret, token) = read(&state, &body).await?;
    let record = state.store().create_token(token).await?;
    created(&NewTokenView { token: secret, record: record.into() })
}

async fn read(state: &AppState, body: &[u8]) -> Result<(String, NewToken), ApiError> {
    let mut fields = Fields::of_body(body)?;
    let name = fields.required_text("name", Text { min: 1, max: 100 });
    let kind = fields.word("kind", TokenKind::ALL, TokenKind::as_str).unwrap_or(TokenKind::Personal);
    let scopes = fields.optional::<Vec<String>>("scopes", "a list of strings");
    let projects = fields.optional::<Vec<ProjectId>>("projects", "a list of project ids").unwrap_or_default();
    let sandbox_id = fields.parsed("sandbox_id", SandboxId::parse);
    let expires_in = fields.optional::<i64>("expires_in_seconds", "a whole number");
    if scopes.iter().flatten().any(|scope| scope != "read" && scope != "write") {
        fields.fault("scopes", "may hold only read and write");
    }
    if (kind == TokenKind::Sandbox) != sandbox_id.is_some() {
        fields.fault("sandbox_id", "is for sandbox tokens, and they need it");
    }
    if expires_in.is_some_and(|seconds| !(1..=EXPIRY_MAX_SECONDS).contains(&seconds)) {
        fields.fault("expires_in_seconds", format!("must be from 1 to {EXPIRY_MAX_SECONDS}"));
    }
    if projects.len() > 1000 {
        fields.fault("projects", "may name at most 1000 projects");
    }
    fields.finish()?;
    let attempt = match &sandbox_id {
        Some(id) => Some(attempt_of(state, id).await?),
        None => None,
    };
    let personal = kind == TokenKind::Personal;
    let both = || vec!["read".to_owned(), "write".to_owned()];
    let expires_at = expires_in.map(|seconds| {
        state
            .parts
            .clock
            .now()
            .saturating_add(SignedDuration::from_secs(seconds))
            .unwrap_or(jiff::Timestamp::MAX)
    });
    let (secret, hash) = mint(kind);
    let token = NewToken {
        hash,
        name: name.unwrap_or_default(),
        kind,
        scopes: if personal { scopes.unwrap_or_else(both) } else { Vec::new() },
        projects: if personal { projects } else { Vec::new() },
        sandbox_id,
        attempt,
        expires_at,
    };
    Ok((secret, token))
}

async fn attempt_of(state: &AppState, id: &SandboxId) -> Result<i64, ApiError> {
    let sandbox = state.store().find_sandbox(id).await?;
    sandbox.map(|sandbox| sandbox.attempt).ok_or_else(|| ApiError::not_found("sandbox", id))
}
