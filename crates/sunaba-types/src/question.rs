//! Questions: what an agent asks a person before it uses a tool.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::execution::QuestionPolicy;
use crate::state::wire_enum;
use crate::{ProjectId, QuestionId, SandboxId, TaskId, Timestamp};

wire_enum!(
    /// How far a question has come.
    QuestionState {
        /// Waits for an answer.
        Open => "open",
        /// A person has answered.
        Answered => "answered",
        /// Nobody answered in time, and the policy has.
        Expired => "expired",
        /// Nobody waits for the answer any more.
        Withdrawn => "withdrawn",
    }
);

wire_enum!(
    /// The answer.
    Decision {
        /// The agent may.
        Allow => "allow",
        /// It may not.
        Deny => "deny",
    }
);

wire_enum!(
    /// For what else an answer counts.
    Remember {
        /// For every later call of the same tool in the same task.
        Tool => "tool",
    }
);

/// A question on its way in.
#[derive(Debug, Clone)]
pub struct NewQuestion {
    /// Whose agent asks.
    pub sandbox_id: SandboxId,
    /// The worker's name for it: the same one again is the same question.
    pub client_id: String,
    /// The tool.
    pub tool: String,
    /// The call that waits for the answer.
    pub tool_use_id: String,
    /// What the tool is to do.
    pub input: Value,
}

/// What a person answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAnswer {
    /// Whether the agent may.
    pub decision: Decision,
    /// What the tool is to do instead.
    pub updated_input: Option<Value>,
    /// What the agent is told when it may not.
    pub message: Option<String>,
    /// For what else it counts.
    pub remember: Option<Remember>,
    /// Who answers: a token's name.
    pub answered_by: String,
}

/// A question and its fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Its id.
    pub id: QuestionId,
    /// Whose agent asks.
    pub sandbox_id: SandboxId,
    /// The project that the sandbox works on.
    pub project_id: Option<ProjectId>,
    /// The task that the sandbox works on.
    pub task_id: Option<TaskId>,
    /// Which attempt at the task asks.
    pub attempt: i64,
    /// The worker's name for it.
    pub client_id: String,
    /// The tool.
    pub tool: String,
    /// The call that waits for the answer.
    pub tool_use_id: String,
    /// What the tool is to do.
    pub input: Value,
    /// What becomes of it when nobody answers in time.
    pub policy: QuestionPolicy,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// Until when an answer is waited for.
    pub expires_at: Timestamp,
    /// How far it has come.
    pub state: QuestionState,
    /// The answer, a person's or the policy's.
    pub answer: Option<Decision>,
    /// What the tool is to do instead.
    pub updated_input: Option<Value>,
    /// What the agent is told when it may not.
    pub message: Option<String>,
    /// For what else the answer counts.
    pub remember: Option<Remember>,
    /// Who answered.
    pub answered_by: Option<String>,
    /// When it was answered, expired or withdrawn.
    pub answered_at: Option<Timestamp>,
    /// Why it expired or was withdrawn, or which answer was taken over.
    pub reason: Option<String>,
}
