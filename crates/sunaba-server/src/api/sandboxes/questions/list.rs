//! `GET /api/v1/sandboxes/{id}/questions` and `GET /api/v1/questions`.

use axum::extract::State;
use serde::Serialize;
use sunaba_store::{PAGE_BYTES, QuestionFilter};
use sunaba_types::{Question, QuestionId, QuestionState, SandboxId};
use utoipa::ToSchema;

use crate::api::views::QuestionView;
use crate::api::{ApiResult, ok};
use crate::auth::{Reader, visible_sandbox};
use crate::extract::{IdPath, Params};
use crate::{ApiError, AppState};

/// Questions, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuestionList {
    questions: Vec<QuestionView>,
    /// Give it as `before` to go on.
    next_before: Option<String>,
}

/// The questions of a sandbox, newest first.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/questions", tag = "questions", operation_id = "sandbox_questions",
    params(("id" = String, Path),
        ("state" = Option<String>, Query, description = "open, answered, expired or withdrawn"),
        ("before" = Option<String>, Query), ("limit" = Option<u32>, Query, minimum = 1, maximum = 500)),
    responses((status = 200, body = QuestionList)))]
pub(crate) async fn of_sandbox(
    State(state): State<AppState>,
    Reader(identity): Reader,
    IdPath(id): IdPath<SandboxId>,
    params: Params,
) -> ApiResult {
    let filter = read(params)?;
    visible_sandbox(&state, &identity, &id).await?;
    answer(&state, QuestionFilter { sandbox_id: Some(id), ..filter }).await
}

/// The questions of every sandbox that the token may see, newest first.
#[utoipa::path(get, path = "/api/v1/questions", tag = "questions", operation_id = "questions",
    params(("state" = Option<String>, Query, description = "open, answered, expired or withdrawn"),
        ("before" = Option<String>, Query), ("limit" = Option<u32>, Query, minimum = 1, maximum = 500)),
    responses((status = 200, body = QuestionList)))]
pub(crate) async fn all(
    State(state): State<AppState>,
    Reader(identity): Reader,
    params: Params,
) -> ApiResult {
    let filter = read(params)?;
    answer(&state, QuestionFilter { visible_projects: identity.visible_projects(), ..filter }).await
}

fn read(mut params: Params) -> Result<QuestionFilter, ApiError> {
    let state = params.parsed("state", |text| {
        QuestionState::parse(&text).ok_or("must be one of open, answered, expired, withdrawn")
    });
    let before = params.parsed("before", QuestionId::parse);
    let limit = params.limit(100, 500);
    params.finish()?;
    Ok(QuestionFilter { state, before, limit, ..QuestionFilter::default() })
}

async fn answer(state: &AppState, filter: QuestionFilter) -> ApiResult {
    let limit = filter.limit as usize;
    let questions = state.store().list_questions(filter).await?;
    // A page may also have ended early, by its bytes.
    let full = questions.len() >= limit || questions.iter().map(weight).sum::<usize>() >= PAGE_BYTES;
    let next_before = questions.last().filter(|_| full).map(|question| question.id.to_string());
    ok(&QuestionList { questions: questions.into_iter().map(Into::into).collect(), next_before })
}

fn weight(question: &Question) -> usize {
    let bytes = |value: &serde_json::Value| value.to_string().len();
    bytes(&question.input) + question.updated_input.as_ref().map_or(0, bytes)
}
