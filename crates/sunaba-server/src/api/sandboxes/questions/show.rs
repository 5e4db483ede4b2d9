//! `GET /api/v1/sandboxes/{id}/questions/{question}`: one question; with `wait`, once it is no longer open.

use std::time::Duration;

use axum::extract::State;
use sunaba_types::limits::LONG_POLL_MAX_SECONDS;
use sunaba_types::{Question, QuestionState};
use tokio::time::Instant;

use super::{as_told, of_sandbox};
use crate::api::sandboxes::task::readable;
use crate::api::views::QuestionView;
use crate::api::{ApiResult, ok};
use crate::auth::{Identity, visible_sandbox};
use crate::extract::{Params, QuestionPath};
use crate::{ApiError, AppState};

/// An answer is told by a signal; this is for the case that it was lost, and for the end of the hold time.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A question and its fate.
#[utoipa::path(get, path = "/api/v1/sandboxes/{id}/questions/{question}", tag = "questions",
    operation_id = "show_question",
    params(("id" = String, Path), ("question" = String, Path),
        ("wait" = Option<u32>, Query, minimum = 0, maximum = 60, description = "Seconds to wait for the answer")),
    responses((status = 200, body = QuestionView)))]
pub(crate) async fn show(
    State(state): State<AppState>,
    identity: Identity,
    path: QuestionPath,
    mut params: Params,
) -> ApiResult {
    readable(&identity)?;
    let longest = i64::try_from(LONG_POLL_MAX_SECONDS).unwrap_or(60);
    let wait = params.number("wait", 0..=longest).unwrap_or(0);
    params.finish()?;
    visible_sandbox(&state, &identity, &path.sandbox).await?;
    let wait = Duration::from_secs(u64::try_from(wait).unwrap_or(0));
    ok(&QuestionView::from(waited(&state, &identity, &path, wait).await?))
}

async fn waited(
    state: &AppState,
    identity: &Identity,
    path: &QuestionPath,
    wait: Duration,
) -> Result<Question, ApiError> {
    let deadline = Instant::now() + wait;
    // Watch before looking: an answer in between is then not slept through.
    let mut watch = state.hub.watch(&path.sandbox);
    loop {
        watch.events.borrow_and_update();
        state.store().check_standing(&path.sandbox, identity.event_writer(false)).await?;
        let question = of_sandbox(state, &path.sandbox, &path.question).await?;
        let question = as_told(state, identity, question).await?;
        let settled = question.state != QuestionState::Open;
        if settled || Instant::now() >= deadline || state.shutdown().is_cancelled() {
            return Ok(question);
        }
        let pause = deadline.min(Instant::now() + LOOK_AGAIN);
        tokio::select! {
            changed = watch.events.changed() => if changed.is_err() { tokio::time::sleep_until(pause).await; },
            () = tokio::time::sleep_until(pause) => {}
            () = state.shutdown().cancelled() => {}
        }
    }
}
