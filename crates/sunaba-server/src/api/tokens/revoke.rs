//! `DELETE /api/v1/tokens/{id}`: from now on the token opens nothing.

use axum::extract::State;
use sunaba_types::TokenId;

use crate::api::views::TokenView;
use crate::api::{ApiResult, ok};
use crate::auth::Admin;
use crate::extract::IdPath;
use crate::{ApiError, AppState};

/// Revokes a token; twice is harmless.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "tokens", operation_id = "revoke_token",
    params(("id" = String, Path)), responses((status = 200, body = TokenView)))]
pub(crate) async fn revoke(
    State(state): State<AppState>,
    _: Admin,
    IdPath(id): IdPath<TokenId>,
) -> ApiResult {
    let record = state.store().revoke_token(&id).await?;
    state.tokens.forget_all();
    let record = record.ok_or_else(|| ApiError::not_found("token", &id))?;
    ok(&TokenView::from(record))
}
