//! `POST /api/v1/sandboxes/{id}/questions`: an agent asks whether it may use a tool.

use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use sunaba_types::limits::QUESTION_INPUT_MAX_BYTES;
use sunaba_types::{EventPayload, NewQuestion, SandboxId};
use utoipa::ToSchema;

use super::{as_told, only_the_sandbox};
use crate::api::views::QuestionView;
use crate::api::{ApiResult, SMALL_BODY, ok};
use crate::auth::{Identity, visible_sandbox};
use crate::extract::{Fields, IdPath, JsonBody, Text};
use crate::{ApiError, AppState};

const NAME: Text = Text { min: 1, max: 200 };

/// A question.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct QuestionBody {
    /// The worker's own name for it, which makes a repeated request harmless: the same one again is the same
    /// question. `tool_use_id` when absent.
    #[schema(min_length = 1, max_length = 200)]
    client_id: Option<String>,
    /// The tool.
    #[schema(min_length = 1, max_length = 200)]
    tool: String,
    /// The call that waits for the answer.
    #[schema(min_length = 1, max_length = 200)]
    tool_use_id: String,
    /// What the tool is to do; at most 1 MiB.
    #[schema(value_type = Object)]
    input: Value,
}

/// Asks, or gives what was asked before under the same name. It may be answered already.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/questions", tag = "questions", operation_id = "ask_question",
    params(("id" = String, Path)), request_body = QuestionBody, responses((status = 200, body = QuestionView)))]
pub(crate) async fn ask(
    State(state): State<AppState>,
    identity: Identity,
    IdPath(id): IdPath<SandboxId>,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    visible_sandbox(&state, &identity, &id).await?;
    only_the_sandbox(&identity, &id)?;
    let question = read(&body, &id)?;
    let asked = state.store().ask_question(identity.event_writer(false), question).await?;
    ok(&QuestionView::from(as_told(&state, &identity, asked).await?))
}

fn read(body: &[u8], sandbox_id: &SandboxId) -> Result<NewQuestion, ApiError> {
    let mut fields = Fields::of_body(body)?;
    let client_id = fields.text("client_id", NAME);
    let tool = fields.required_text("tool", NAME);
    let tool_use_id = fields.required_text("tool_use_id", NAME);
    fields.require("input");
    let input = object(&mut fields, "input");
    fields.finish()?;
    let (Some(tool), Some(tool_use_id), Some(input)) = (tool, tool_use_id, input) else {
        return Err(ApiError::internal());
    };
    let client_id = client_id.unwrap_or_else(|| tool_use_id.clone());
    Ok(NewQuestion { sandbox_id: sandbox_id.clone(), client_id, tool, tool_use_id, input })
}

/// A tool's input: an object that an event could carry.
pub(super) fn object(fields: &mut Fields<'_>, name: &str) -> Option<Value> {
    let raw = fields.raw(name)?;
    if raw.get().len() > QUESTION_INPUT_MAX_BYTES {
        fields.fault(
            name,
            format!("must have at most {QUESTION_INPUT_MAX_BYTES} bytes, has {}", raw.get().len()),
        );
        return None;
    }
    match EventPayload::new(raw.to_owned()) {
        Ok(payload) => Some(payload.to_value()),
        Err(error) => {
            fields.fault(name, error.to_string());
            None
        }
    }
}
