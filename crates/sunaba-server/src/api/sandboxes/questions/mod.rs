//! What an agent asks before it uses a tool, and what people answer.
//!
//! The worker asks, waits and withdraws with its sandbox's token; people look and answer with theirs.

pub(crate) mod answer;
pub(crate) mod ask;
pub(crate) mod list;
pub(crate) mod show;
pub(crate) mod withdraw;

use sunaba_types::{Question, QuestionId, QuestionState, SandboxId};

use crate::auth::{Identity, may_write};
use crate::{ApiError, AppState};

/// The question, if it is one of this sandbox.
pub(super) async fn of_sandbox(
    state: &AppState,
    sandbox_id: &SandboxId,
    id: &QuestionId,
) -> Result<Question, ApiError> {
    let found = state.store().find_question(id).await?;
    found
        .filter(|question| question.sandbox_id == *sandbox_id)
        .ok_or_else(|| ApiError::not_found("question", id))
}

/// The question as its sandbox is told it: an answer that came when its place was being given up is for the attempt that
/// goes on and is told to make the call. Otherwise both would make it.
pub(super) async fn as_told(
    state: &AppState,
    identity: &Identity,
    question: Question,
) -> Result<Question, ApiError> {
    let of_asker =
        question.state == QuestionState::Answered && identity.takes_messages_of(&question.sandbox_id);
    if !of_asker
        || !state.store().came_late(&question.id).await?
        || state.store().sandbox_state(&question.sandbox_id).await?.is_terminal()
    {
        return Ok(question);
    }
    Ok(Question {
        state: QuestionState::Open,
        answer: None,
        updated_input: None,
        message: None,
        remember: None,
        answered_by: None,
        answered_at: None,
        ..question
    })
}

/// Whether the caller is the sandbox itself: nobody else asks in its name.
pub(super) fn only_the_sandbox(identity: &Identity, sandbox_id: &SandboxId) -> Result<(), ApiError> {
    if identity.takes_messages_of(sandbox_id) {
        return Ok(());
    }
    may_write(identity)?;
    Err(ApiError::forbidden("sandbox_only", "only the sandbox's own token asks and withdraws questions"))
}
