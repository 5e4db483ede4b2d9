//! A question on the wire.

use serde::Serialize;
use serde_json::Value;
use sunaba_types::{Decision, Question, Remember, Timestamp};
use utoipa::ToSchema;

/// Something an agent asks before it uses a tool, and its fate.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Question)]
pub(crate) struct QuestionView {
    id: String,
    sandbox_id: String,
    project_id: Option<String>,
    task_id: Option<String>,
    attempt: i64,
    /// The worker's own name for it.
    client_id: String,
    tool: String,
    tool_use_id: String,
    /// What the tool is to do.
    #[schema(value_type = Object)]
    input: Value,
    asked_at: Timestamp,
    /// Until when an answer is waited for; then the policy decides.
    expires_at: Timestamp,
    /// `deny`, `allow`, or `suspend`: it stays open.
    policy: &'static str,
    /// `open`, `answered`, `expired`, `withdrawn`.
    #[schema(example = "open")]
    state: &'static str,
    /// `allow` or `deny`: a person's answer, or the policy's when it expired.
    answer: Option<&'static str>,
    /// What the tool is to do instead.
    #[schema(value_type = Option<Object>)]
    updated_input: Option<Value>,
    /// What the agent is told when it may not.
    message: Option<String>,
    /// `tool`: the answer counts for every later call of the tool.
    remember: Option<&'static str>,
    answered_by: Option<String>,
    /// When it was answered, expired or withdrawn.
    answered_at: Option<Timestamp>,
    /// Why it expired or was withdrawn, or which answer was taken over.
    reason: Option<String>,
}

impl From<Question> for QuestionView {
    fn from(q: Question) -> Self {
        Self {
            id: q.id.into(),
            sandbox_id: q.sandbox_id.into(),
            project_id: q.project_id.map(Into::into),
            task_id: q.task_id.map(Into::into),
            attempt: q.attempt,
            client_id: q.client_id,
            tool: q.tool,
            tool_use_id: q.tool_use_id,
            input: q.input,
            asked_at: q.asked_at,
            expires_at: q.expires_at,
            policy: q.policy.as_str(),
            state: q.state.as_str(),
            answer: q.answer.map(Decision::as_str),
            updated_input: q.updated_input,
            message: q.message,
            remember: q.remember.map(Remember::as_str),
            answered_by: q.answered_by,
            answered_at: q.answered_at,
            reason: q.reason,
        }
    }
}
