//! The shapes of things on the wire.

mod question;
mod sandbox;

pub(crate) use question::QuestionView;
pub(crate) use sandbox::{ResourcesView, SandboxView};

use serde::Serialize;
use sunaba_types::{
    EventPayload, ExecutionConfig, Message, Project, StoredEvent, Task, Ticket, Timestamp, TokenRecord,
};
use utoipa::ToSchema;

use crate::{ApiError, AppState};

/// One line of a sandbox's log.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventView {
    id: String,
    seq: i64,
    sandbox_id: String,
    event_type: String,
    /// The payload, exactly as it was received.
    #[schema(value_type = Object)]
    event_data: EventPayload,
    source: &'static str,
    created_at: Timestamp,
}

impl From<StoredEvent> for EventView {
    fn from(e: StoredEvent) -> Self {
        Self {
            id: e.event_id,
            seq: e.seq,
            sandbox_id: e.sandbox_id.into(),
            event_type: e.event_type,
            event_data: e.payload,
            source: e.source.as_str(),
            created_at: e.created_at,
        }
    }
}

/// A git repository with its settings.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Project)]
pub(crate) struct ProjectView {
    id: String,
    name: String,
    repo_path: Option<String>,
    repo_url: Option<String>,
    default_branch: String,
    #[schema(value_type = Object)]
    settings: serde_json::Value,
    /// The names of its secrets; their values are never shown.
    secrets: Vec<String>,
    /// The node that has its mirror; none before its first sandbox.
    home_node: Option<String>,
    created_at: Timestamp,
}

impl ProjectView {
    /// A project with the names of its secrets.
    pub(crate) async fn of(state: &AppState, p: Project) -> Result<Self, ApiError> {
        let secrets = state.store().list_secrets(&p.id).await?;
        Ok(Self {
            id: p.id.into(),
            name: p.name,
            repo_path: p.repo_path,
            repo_url: p.repo_url,
            default_branch: p.default_branch,
            settings: serde_json::to_value(p.settings).unwrap_or_default(),
            secrets: secrets.into_iter().map(|secret| secret.name).collect(),
            home_node: p.home_node.map(Into::into),
            created_at: p.created_at,
        })
    }
}

/// A piece of wanted work.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ticket)]
pub(crate) struct TicketView {
    id: String,
    project_id: String,
    title: String,
    description: String,
    #[serde(rename = "type")]
    ticket_type: &'static str,
    priority: &'static str,
    status: &'static str,
    branch_name: Option<String>,
    owner: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Ticket> for TicketView {
    fn from(t: Ticket) -> Self {
        Self {
            id: t.id.into(),
            project_id: t.project_id.into(),
            title: t.title,
            description: t.description,
            ticket_type: t.ticket_type.as_str(),
            priority: t.priority.as_str(),
            status: t.status.as_str(),
            branch_name: t.branch_name,
            owner: t.owner,
            created_at: t.created_at,
            updated_at: t.updated_at,
        }
    }
}

/// One unit that an agent does.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Task)]
pub(crate) struct TaskView {
    id: String,
    ticket_id: String,
    project_id: String,
    phase_id: Option<String>,
    task_type: String,
    title: String,
    description: String,
    priority: &'static str,
    status: &'static str,
    sandbox_id: Option<String>,
    assigned_agent_id: Option<String>,
    attempt: i64,
    outcome: Option<&'static str>,
    #[schema(value_type = Option<Object>)]
    result: Option<serde_json::Value>,
    error_message: Option<String>,
    /// How its agent works unless a call says otherwise.
    #[schema(value_type = Object)]
    execution_config: ExecutionConfig,
    created_at: Timestamp,
    updated_at: Timestamp,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
}

impl From<Task> for TaskView {
    fn from(t: Task) -> Self {
        Self {
            id: t.id.into(),
            ticket_id: t.ticket_id.into(),
            project_id: t.project_id.into(),
            phase_id: t.phase_id,
            task_type: t.task_type,
            title: t.title,
            description: t.description,
            priority: t.priority.as_str(),
            status: t.status.as_str(),
            sandbox_id: t.sandbox_id.map(Into::into),
            assigned_agent_id: t.assigned_agent_id,
            attempt: t.attempt,
            outcome: t.outcome.map(sunaba_types::Outcome::as_str),
            result: t.result,
            error_message: t.error_message,
            execution_config: t.execution_config,
            created_at: t.created_at,
            updated_at: t.updated_at,
            started_at: t.started_at,
            completed_at: t.completed_at,
        }
    }
}

/// A token, without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub(crate) struct TokenView {
    id: String,
    name: String,
    kind: &'static str,
    scopes: Vec<String>,
    projects: Vec<String>,
    sandbox_id: Option<String>,
    attempt: Option<i64>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
}

impl From<TokenRecord> for TokenView {
    fn from(t: TokenRecord) -> Self {
        Self {
            id: t.id.into(),
            name: t.name,
            kind: t.kind.as_str(),
            scopes: t.scopes,
            projects: t.projects.into_iter().map(Into::into).collect(),
            sandbox_id: t.sandbox_id.map(Into::into),
            attempt: t.attempt,
            created_at: t.created_at,
            expires_at: t.expires_at,
            revoked_at: t.revoked_at,
        }
    }
}

/// A message as a worker gets it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Message)]
pub(crate) struct MessageView {
    id: String,
    content: String,
    message_type: &'static str,
    timestamp: Timestamp,
    seq: i64,
    sender: String,
}

impl From<Message> for MessageView {
    fn from(m: Message) -> Self {
        Self {
            id: m.id.into(),
            content: m.content,
            message_type: m.message_type.as_str(),
            timestamp: m.created_at,
            seq: m.seq,
            sender: m.sender,
        }
    }
}

/// A message and its fate.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MessageFate)]
pub(crate) struct MessageFateView {
    id: String,
    seq: i64,
    content: String,
    message_type: &'static str,
    sender: String,
    state: &'static str,
    created_at: Timestamp,
    handed_over_at: Option<Timestamp>,
    acknowledged_at: Option<Timestamp>,
    consumed_at: Option<Timestamp>,
    /// The event at which it entered the conversation.
    consumed_seq: Option<i64>,
    reason: Option<String>,
}

impl From<Message> for MessageFateView {
    fn from(m: Message) -> Self {
        Self {
            id: m.id.into(),
            seq: m.seq,
            content: m.content,
            message_type: m.message_type.as_str(),
            sender: m.sender,
            state: m.state.as_str(),
            created_at: m.created_at,
            handed_over_at: m.handed_over_at,
            acknowledged_at: m.acknowledged_at,
            consumed_at: m.consumed_at,
            consumed_seq: m.consumed_seq,
            reason: m.reason,
        }
    }
}
