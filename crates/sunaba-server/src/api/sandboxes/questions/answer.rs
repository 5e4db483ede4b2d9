//! `POST /api/v1/sandboxes/{id}/questions/{question}/answer`: a person allows or denies.

use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use sunaba_types::limits::MESSAGE_MAX_BYTES;
use sunaba_types::{Decision, NewAnswer, Remember};
use utoipa::ToSchema;

use super::ask::object;
use super::of_sandbox;
use crate::api::views::QuestionView;
use crate::api::{ApiResult, SMALL_BODY, ok};
use crate::auth::{Editor, visible_sandbox};
use crate::extract::{Fields, JsonBody, QuestionPath, Text};
use crate::{ApiError, AppState};

/// An answer.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct AnswerBody {
    /// `allow` or `deny`.
    decision: String,
    /// What the tool is to do instead of what was asked for; only with `allow`.
    #[schema(value_type = Option<Object>)]
    updated_input: Option<Value>,
    /// What the agent is told; only with `deny`. At most 64 KiB.
    message: Option<String>,
    /// `tool`: the same answer for every later call of this tool in the same task.
    remember: Option<String>,
}

/// Answers a question. The same answer again changes nothing; another one, or one that comes too late, is a conflict.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/questions/{question}/answer", tag = "questions",
    operation_id = "answer_question", params(("id" = String, Path), ("question" = String, Path)),
    request_body = AnswerBody, responses((status = 200, body = QuestionView)))]
pub(crate) async fn answer(
    State(state): State<AppState>,
    Editor(identity): Editor,
    path: QuestionPath,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    visible_sandbox(&state, &identity, &path.sandbox).await?;
    of_sandbox(&state, &path.sandbox, &path.question).await?;
    let answer = read(&body, identity.name.to_string())?;
    ok(&QuestionView::from(state.store().answer_question(&path.question, answer).await?))
}

fn read(body: &[u8], answered_by: String) -> Result<NewAnswer, ApiError> {
    let mut fields = Fields::of_body(body)?;
    fields.require("decision");
    let decision = fields.word("decision", Decision::ALL, Decision::as_str);
    let updated_input = object(&mut fields, "updated_input");
    if updated_input.is_some() && decision == Some(Decision::Deny) {
        fields.fault("updated_input", "is only for `allow`");
    }
    let message = fields.bounded_text("message", Text { min: 1, max: MESSAGE_MAX_BYTES }, MESSAGE_MAX_BYTES);
    if message.is_some() && decision == Some(Decision::Allow) {
        fields.fault("message", "is only for `deny`; say something to an agent with a message");
    }
    let remember = fields.word("remember", Remember::ALL, Remember::as_str);
    fields.finish()?;
    let decision = decision.ok_or_else(ApiError::internal)?;
    Ok(NewAnswer { decision, updated_input, message, remember, answered_by })
}
