//! `GET /api/v1/tokens`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::AppState;
use crate::api::views::TokenView;
use crate::api::{ApiResult, ok};
use crate::auth::Admin;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenList {
    tokens: Vec<TokenView>,
}

/// Admin and personal tokens, newest first, without their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", operation_id = "list_tokens",
    responses((status = 200, body = TokenList)))]
pub(crate) async fn list(State(state): State<AppState>, _: Admin) -> ApiResult {
    let tokens = state.store().list_tokens().await?;
    ok(&TokenList { tokens: tokens.into_iter().map(Into::into).collect() })
}
