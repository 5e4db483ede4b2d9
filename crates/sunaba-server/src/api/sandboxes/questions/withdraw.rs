//! `POST /api/v1/sandboxes/{id}/questions/{question}/withdraw`: the agent no longer waits for the answer.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{of_sandbox, only_the_sandbox};
use crate::AppState;
use crate::api::views::QuestionView;
use crate::api::{ApiResult, SMALL_BODY, ok};
use crate::auth::{Identity, visible_sandbox};
use crate::extract::{Fields, JsonBody, QuestionPath, Text};

/// Why a question is withdrawn.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct WithdrawBody {
    /// In a few words.
    #[schema(min_length = 1, max_length = 500)]
    reason: Option<String>,
}

/// Takes an open question back; one that is not open stays as it is.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/questions/{question}/withdraw", tag = "questions",
    operation_id = "withdraw_question", params(("id" = String, Path), ("question" = String, Path)),
    request_body = WithdrawBody, responses((status = 200, body = QuestionView)))]
pub(crate) async fn withdraw(
    State(state): State<AppState>,
    identity: Identity,
    path: QuestionPath,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    visible_sandbox(&state, &identity, &path.sandbox).await?;
    only_the_sandbox(&identity, &path.sandbox)?;
    let mut fields = Fields::of_body(&body)?;
    let reason = fields.text("reason", Text { min: 1, max: 500 });
    fields.finish()?;
    of_sandbox(&state, &path.sandbox, &path.question).await?;
    let by = identity.event_writer(false);
    let reason = reason.unwrap_or_else(|| "the agent no longer waits for the answer".to_owned());
    ok(&QuestionView::from(state.store().withdraw_question(&path.question, by, &reason).await?))
}
