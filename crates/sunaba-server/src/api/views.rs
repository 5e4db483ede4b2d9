//! The shapes of things on the wire.

use serde::Serialize;
use sunaba_types::{
    EventPayload, Message, Project, Resources, Sandbox, StoredEvent, Task, Ticket, Timestamp, TokenRecord,
};
use utoipa::ToSchema;

/// What a sandbox may use.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ResourcesView {
    /// Memory in GiB.
    memory_gb: f64,
    /// Processor cores.
    cpu: f64,
    /// Disk in GiB.
    disk_gb: f64,
}

impl From<Resources> for ResourcesView {
    fn from(r: Resources) -> Self {
        Self { memory_gb: r.memory_gb, cpu: r.cpu, disk_gb: r.disk_gb }
    }
}

/// One attempt at one task in one isolated machine.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Sandbox)]
pub(crate) struct SandboxView {
    id: String,
    project_id: Option<String>,
    task_id: Option<String>,
    attempt: i64,
    provider: String,
    provider_ref: Option<String>,
    #[schema(example = "running")]
    state: &'static str,
    state_entered_at: Timestamp,
    reason: Option<String>,
    runtime: String,
    model: String,
    prompt: String,
    branch_name: Option<String>,
    base_commit: Option<String>,
    head_commit: Option<String>,
    isolation: Option<String>,
    resources: ResourcesView,
    alive_until: Option<Timestamp>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
}

impl From<Sandbox> for SandboxView {
    fn from(s: Sandbox) -> Self {
        Self {
            id: s.id.into(),
            project_id: s.project_id.map(Into::into),
            task_id: s.task_id.map(Into::into),
            attempt: s.attempt,
            provider: s.provider,
            provider_ref: s.provider_ref,
            state: s.state.as_str(),
            state_entered_at: s.state_entered_at,
            reason: s.reason,
            runtime: s.runtime,
            model: s.model,
            prompt: s.prompt,
            branch_name: s.branch_name,
            base_commit: s.base_commit,
            head_commit: s.head_commit,
            isolation: s.isolation,
            resources: s.resources.into(),
            alive_until: s.alive_until,
            created_at: s.created_at,
            ended_at: s.ended_at,
        }
    }
}

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
    created_at: Timestamp,
}

impl From<Project> for ProjectView {
    fn from(p: Project) -> Self {
        Self {
            id: p.id.into(),
            name: p.name,
            repo_path: p.repo_path,
            repo_url: p.repo_url,
            default_branch: p.default_branch,
            settings: serde_json::to_value(p.settings).unwrap_or_default(),
            created_at: p.created_at,
        }
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
