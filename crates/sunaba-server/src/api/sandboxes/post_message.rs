//! `POST /api/v1/sandboxes/{id}/messages`: says something to the agent.

use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use sunaba_store::{Error, FollowedUp, Queued};
use sunaba_types::limits::MESSAGE_MAX_BYTES;
use sunaba_types::{MessageType, NewMessage, Sandbox, SandboxId, SandboxState};
use utoipa::ToSchema;

use crate::api::{ApiResult, SMALL_BODY, ok};
use crate::auth::{Editor, visible_sandbox};
use crate::extract::{Fields, IdPath, JsonBody, Text};
use crate::{ApiError, AppState, telemetry};

/// How often a message is said again to sandboxes that end meanwhile.
const TRIES: usize = 4;

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct MessageBody {
    /// At most 64 KiB.
    #[schema(min_length = 1)]
    content: String,
    /// `user_message` (default), `interrupt`, `guardian_nudge`, `guidance`, `system`.
    message_type: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageQueued {
    status: &'static str,
    message_id: String,
    /// The sandbox that takes it: another one when the one that was asked for is over.
    sandbox_id: String,
    /// How many wait now, this one included.
    queue_size: i64,
    /// What becomes of it: `in_run` (its agent reads it while it works), `follow_up` (its agent is done and goes on with
    /// it in the same sandbox) or `new_attempt` (another sandbox goes on with it, on the same branch).
    effect: &'static str,
    /// The same in words.
    detail: String,
}

/// Queues a message for the agent; a waiting worker gets it at once. Where the sandbox is over a new one goes on with
/// it: on the same branch, with the conversation that was kept.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/messages", tag = "messages", operation_id = "post_message",
    params(("id" = String, Path)), request_body = MessageBody, responses((status = 200, body = MessageQueued)))]
pub(crate) async fn post_message(
    State(state): State<AppState>,
    Editor(identity): Editor,
    IdPath(id): IdPath<SandboxId>,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    let (content, message_type) = read(&body)?;
    let sandbox = visible_sandbox(&state, &identity, &id).await?;
    let message = NewMessage { sandbox_id: id, content, message_type, sender: identity.name.to_string() };
    let told = say(&state, sandbox, message).await?;
    state.hub.message_queued(&told.sandbox.id);
    metrics::counter!(telemetry::MESSAGES).increment(1);
    let (effect, detail) = told.words();
    ok(&MessageQueued {
        status: "queued",
        message_id: told.queued.message.id.into(),
        sandbox_id: told.sandbox.id.into(),
        queue_size: told.queued.queue_size,
        effect,
        detail,
    })
}

/// A message and who takes it.
#[derive(Debug)]
struct Told {
    sandbox: Sandbox,
    queued: Queued,
    /// Whether the sandbox was made for it.
    made: bool,
}

/// Says it to the sandbox or, where that is over, to whoever goes on with its task. Sandboxes may begin and end
/// meanwhile: then it is said again.
async fn say(state: &AppState, sandbox: Sandbox, message: NewMessage) -> Result<Told, ApiError> {
    let mut sandbox = sandbox;
    let mut refused = None;
    for _ in 0..TRIES {
        let to = NewMessage { sandbox_id: sandbox.id.clone(), ..message.clone() };
        let ended = match state.store().queue_message(to.clone()).await {
            Ok(queued) => return Ok(Told { sandbox, queued, made: false }),
            Err(Error::Conflict { code: "sandbox_ended", detail }) => detail,
            Err(error) => return Err(error.into()),
        };
        // There is nothing left to stop.
        if message.message_type == MessageType::Interrupt {
            return Err(ApiError::new(StatusCode::CONFLICT, "sandbox_ended", ended));
        }
        match state.store().follow_up(to).await {
            Ok(FollowedUp { sandbox, queued }) => return Ok(Told { sandbox, queued, made: true }),
            Err(error @ Error::Conflict { code: "newer_attempt" | "sandbox_lives", .. }) => {
                sandbox = present_attempt(state, sandbox).await?;
                refused = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(refused.map_or_else(ApiError::internal, Into::into))
}

/// The sandbox that has the task now.
async fn present_attempt(state: &AppState, sandbox: Sandbox) -> Result<Sandbox, ApiError> {
    let Some(task) = &sandbox.task_id else { return Ok(sandbox) };
    let present = state.store().find_task(task).await?.and_then(|task| task.sandbox_id);
    let Some(present) = present else { return Ok(sandbox) };
    Ok(state.store().find_sandbox(&present).await?.unwrap_or(sandbox))
}

impl Told {
    fn words(&self) -> (&'static str, String) {
        let Sandbox { id, attempt, .. } = &self.sandbox;
        if self.made {
            let from = match &self.sandbox.terms.resume {
                Some(resume) if resume.fork => {
                    format!(
                        "with a copy of the conversation {}, which another sandbox has",
                        resume.session_id
                    )
                }
                Some(resume) => format!("with the conversation {}", resume.session_id),
                None => "from the beginning, since no conversation was kept".to_owned(),
            };
            let detail = format!(
                "the sandbox was over; attempt {attempt} ({id}) goes on with it on the same branch, {from}"
            );
            return ("new_attempt", detail);
        }
        match self.sandbox.state {
            SandboxState::Completing => {
                let detail = format!(
                    "the agent is done and goes on with it in {id}, or in a new attempt if that ends"
                );
                ("follow_up", detail)
            }
            SandboxState::Pending | SandboxState::Creating => {
                ("in_run", format!("the agent in {id} reads it when it has begun"))
            }
            _ => ("in_run", format!("the agent in {id} reads it at its next step")),
        }
    }
}

fn read(body: &[u8]) -> Result<(String, MessageType), ApiError> {
    let mut fields = Fields::of_body(body)?;
    let content = fields.required_text("content", Text { min: 1, max: MESSAGE_MAX_BYTES });
    if content.as_ref().is_some_and(|text| text.len() > MESSAGE_MAX_BYTES) {
        fields.fault("content", format!("must have at most {MESSAGE_MAX_BYTES} bytes"));
    }
    let message_type = fields.word("message_type", MessageType::ALL, MessageType::as_str);
    fields.finish()?;
    Ok((content.ok_or_else(ApiError::internal)?, message_type.unwrap_or(MessageType::UserMessage)))
}
