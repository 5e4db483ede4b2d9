//! Rows as PostgreSQL gives them, and how they become the product's words.
//!
//! A value that cannot be read is an error that names table, column and row,
//! never a default.

use std::borrow::Cow;

use sunaba_types::chain::Hash;
use sunaba_types::{
    EventPayload, MessageId, Outcome, Priority, ProjectId, Resources, Sandbox, SandboxId, SandboxState,
    Source, StoredEvent, Task, TaskId, TaskState, TicketId, Timestamp,
};

use crate::fault::Unreadable;

pub(crate) fn readable<T>(
    value: Option<T>,
    table: &'static str,
    column: &'static str,
    row: &str,
) -> Result<T, Unreadable> {
    value.ok_or_else(|| Unreadable { table, column, row: row.to_owned() })
}

pub(crate) fn time(
    micros: i64,
    table: &'static str,
    column: &'static str,
    row: &str,
) -> Result<Timestamp, Unreadable> {
    readable(Timestamp::from_microsecond(micros).ok(), table, column, row)
}

pub(crate) fn maybe_time(
    micros: Option<i64>,
    table: &'static str,
    column: &'static str,
    row: &str,
) -> Result<Option<Timestamp>, Unreadable> {
    micros.map(|at| time(at, table, column, row)).transpose()
}

pub(crate) fn hash(
    bytes: &[u8],
    table: &'static str,
    column: &'static str,
    row: &str,
) -> Result<Hash, Unreadable> {
    readable(bytes.try_into().ok(), table, column, row)
}

/// Selects whole sandboxes (`s`, with their log `l`).
macro_rules! sandbox_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::rows::SandboxRow,
            r#"SELECT s.id AS "id!", s.project_id, s.task_id, s.attempt AS "attempt!", s.provider AS "provider!",
                      s.provider_ref, s.state AS "state!", s.state_entered_at AS "state_entered_at!", s.reason,
                      s.runtime AS "runtime!", s.model AS "model!", s.prompt AS "prompt!", s.branch_name,
                      s.base_commit, s.head_commit, s.isolation, s.memory_gb AS "memory_gb!", s.cpu AS "cpu!",
                      s.disk_gb AS "disk_gb!", s.terms AS "terms!", s.exit, s.cost_micros AS "cost_micros!",
                      l.alive_until AS "alive_until?",
                      s.created_at AS "created_at!", s.ended_at
               FROM sandboxes AS s JOIN sandbox_log AS l ON l.sandbox_id = s.id "# + $tail
            $(, $arg)*
        )
    };
}
pub(crate) use sandbox_query;

#[derive(Debug)]
pub(crate) struct SandboxRow {
    pub(crate) id: String,
    pub(crate) project_id: Option<String>,
    pub(crate) task_id: Option<String>,
    pub(crate) attempt: i64,
    pub(crate) provider: String,
    pub(crate) provider_ref: Option<String>,
    pub(crate) state: String,
    pub(crate) state_entered_at: i64,
    pub(crate) reason: Option<String>,
    pub(crate) runtime: String,
    pub(crate) model: String,
    pub(crate) prompt: String,
    pub(crate) branch_name: Option<String>,
    pub(crate) base_commit: Option<String>,
    pub(crate) head_commit: Option<String>,
    pub(crate) isolation: Option<String>,
    pub(crate) memory_gb: f64,
    pub(crate) cpu: f64,
    pub(crate) disk_gb: f64,
    pub(crate) terms: String,
    pub(crate) exit: Option<String>,
    pub(crate) cost_micros: i64,
    pub(crate) alive_until: Option<i64>,
    pub(crate) created_at: i64,
    pub(crate) ended_at: Option<i64>,
}

impl TryFrom<SandboxRow> for Sandbox {
    type Error = Unreadable;

    fn try_from(row: SandboxRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "sandboxes";
        let key = row.id.clone();
        Ok(Self {
            id: readable(SandboxId::parse(row.id).ok(), TABLE, "id", &key)?,
            project_id: row.project_id.and_then(|id| ProjectId::parse(id).ok()),
            task_id: row.task_id.and_then(|id| TaskId::parse(id).ok()),
            attempt: row.attempt,
            provider: row.provider,
            provider_ref: row.provider_ref,
            state: readable(SandboxState::parse(&row.state), TABLE, "state", &key)?,
            state_entered_at: time(row.state_entered_at, TABLE, "state_entered_at", &key)?,
            reason: row.reason,
            runtime: row.runtime,
            model: row.model,
            prompt: row.prompt,
            branch_name: row.branch_name,
            base_commit: row.base_commit,
            head_commit: row.head_commit,
            isolation: row.isolation,
            resources: Resources { memory_gb: row.memory_gb, cpu: row.cpu, disk_gb: row.disk_gb },
            terms: readable(serde_json::from_str(&row.terms).ok(), TABLE, "terms", &key)?,
            exit: match row.exit {
                Some(text) => Some(readable(serde_json::from_str(&text).ok(), TABLE, "exit", &key)?),
                None => None,
            },
            cost_micros: row.cost_micros,
            alive_until: maybe_time(row.alive_until, TABLE, "alive_until", &key)?,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            ended_at: maybe_time(row.ended_at, TABLE, "ended_at", &key)?,
        })
    }
}

/// Selects whole tasks (`t`).
macro_rules! task_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::rows::TaskRow,
            r#"SELECT t.id AS "id!", t.ticket_id AS "ticket_id!", t.project_id AS "project_id!", t.phase_id,
                      t.task_type AS "task_type!", t.title AS "title!", t.description AS "description!",
                      t.priority AS "priority!", t.status AS "status!", t.sandbox_id, t.assigned_agent_id,
                      t.attempt AS "attempt!", t.outcome, t.result, t.error_message,
                      t.created_at AS "created_at!", t.updated_at AS "updated_at!", t.started_at, t.completed_at
               FROM tasks AS t "# + $tail
            $(, $arg)*
        )
    };
}
pub(crate) use task_query;

#[derive(Debug)]
pub(crate) struct TaskRow {
    pub(crate) id: String,
    pub(crate) ticket_id: String,
    pub(crate) project_id: String,
    pub(crate) phase_id: Option<String>,
    pub(crate) task_type: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) priority: String,
    pub(crate) status: String,
    pub(crate) sandbox_id: Option<String>,
    pub(crate) assigned_agent_id: Option<String>,
    pub(crate) attempt: i64,
    pub(crate) outcome: Option<String>,
    pub(crate) result: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) started_at: Option<i64>,
    pub(crate) completed_at: Option<i64>,
}

impl TryFrom<TaskRow> for Task {
    type Error = Unreadable;

    fn try_from(row: TaskRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "tasks";
        let key = row.id.clone();
        let result = row.result.map(|text| readable(serde_json::from_str(&text).ok(), TABLE, "result", &key));
        let outcome = row.outcome.map(|text| readable(Outcome::parse(&text), TABLE, "outcome", &key));
        Ok(Self {
            id: readable(TaskId::parse(row.id).ok(), TABLE, "id", &key)?,
            ticket_id: readable(TicketId::parse(row.ticket_id).ok(), TABLE, "ticket_id", &key)?,
            project_id: readable(ProjectId::parse(row.project_id).ok(), TABLE, "project_id", &key)?,
            phase_id: row.phase_id,
            task_type: row.task_type,
            title: row.title,
            description: row.description,
            priority: readable(Priority::parse(&row.priority), TABLE, "priority", &key)?,
            status: readable(TaskState::parse(&row.status), TABLE, "status", &key)?,
            sandbox_id: row.sandbox_id.and_then(|id| SandboxId::parse(id).ok()),
            assigned_agent_id: row.assigned_agent_id,
            attempt: row.attempt,
            outcome: outcome.transpose()?,
            result: result.transpose()?,
            error_message: row.error_message,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            updated_at: time(row.updated_at, TABLE, "updated_at", &key)?,
            started_at: maybe_time(row.started_at, TABLE, "started_at", &key)?,
            completed_at: maybe_time(row.completed_at, TABLE, "completed_at", &key)?,
        })
    }
}

/// Selects whole events (`e`).
macro_rules! event_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            crate::rows::EventRow,
            r#"SELECT e.sandbox_id AS "sandbox_id!", e.seq AS "seq!", e.event_id AS "event_id!",
                      e.event_type AS "event_type!", e.source AS "source!", e.payload AS "payload!",
                      e.created_at AS "created_at!", e.payload_hash AS "payload_hash!", e.hash AS "hash!"
               FROM events AS e "# + $tail
            $(, $arg)*
        )
    };
}
pub(crate) use event_query;

#[derive(Debug)]
pub(crate) struct EventRow {
    pub(crate) sandbox_id: String,
    pub(crate) seq: i64,
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    pub(crate) source: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) created_at: i64,
    pub(crate) payload_hash: Vec<u8>,
    pub(crate) hash: Vec<u8>,
}

impl TryFrom<EventRow> for StoredEvent {
    type Error = Unreadable;

    fn try_from(row: EventRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "events";
        let key = format!("{} {}", row.sandbox_id, row.seq);
        let payload = readable(String::from_utf8(row.payload).ok(), TABLE, "payload", &key)?;
        Ok(Self {
            sandbox_id: readable(SandboxId::parse(row.sandbox_id).ok(), TABLE, "sandbox_id", &key)?,
            seq: row.seq,
            event_id: row.event_id,
            event_type: row.event_type,
            source: readable(Source::parse(&row.source), TABLE, "source", &key)?,
            payload: readable(EventPayload::from_stored(payload).ok(), TABLE, "payload", &key)?,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            payload_hash: hash(&row.payload_hash, TABLE, "payload_hash", &key)?,
            hash: hash(&row.hash, TABLE, "hash", &key)?,
        })
    }
}

/// All rows, or the first that cannot be read.
pub(crate) fn all<R, T>(rows: Vec<R>) -> Result<Vec<T>, Unreadable>
where
    T: TryFrom<R, Error = Unreadable>,
{
    rows.into_iter().map(T::try_from).collect()
}

/// Ids or names as one argument.
pub(crate) fn list<'a>(items: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    items.into_iter().map(str::to_owned).collect()
}

/// A text that may come from anywhere, without the one character that PostgreSQL cannot hold.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// A message's id as stored.
pub(crate) fn message_id(id: String) -> Result<MessageId, Unreadable> {
    let key = id.clone();
    readable(MessageId::parse(id).ok(), "messages", "id", &key)
}
