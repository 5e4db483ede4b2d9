//! The columns of whole rows, as PostgreSQL is asked for them.

use std::borrow::Cow;

pub(crate) use sunaba_store_sql::rows::{all, hash, maybe_time, readable, time};

/// Selects whole sandboxes (`s`, with their log `l`).
macro_rules! sandbox_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            sunaba_store_sql::rows::SandboxRow,
            r#"SELECT s.id AS "id!", s.project_id, s.task_id, s.attempt AS "attempt!", s.provider AS "provider!",
                      s.provider_ref, s.node_id, s.state AS "state!", s.state_entered_at AS "state_entered_at!", s.reason,
                      s.runtime AS "runtime!", s.model AS "model!", s.prompt AS "prompt!", s.branch_name,
                      s.base_commit, s.head_commit, s.isolation, s.memory_gb AS "memory_gb!", s.cpu AS "cpu!",
                      s.disk_gb AS "disk_gb!", s.terms AS "terms!", s.exit, s.cost_micros AS "cost_micros!",
                      l.alive_until AS "alive_until?", l.silence_seconds AS "silence_seconds!",
                      s.created_at AS "created_at!", s.ended_at
               FROM sandboxes AS s JOIN sandbox_log AS l ON l.sandbox_id = s.id "# + $tail
            $(, $arg)*
        )
    };
}
pub(crate) use sandbox_query;

/// Selects whole tasks (`t`).
macro_rules! task_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            sunaba_store_sql::rows::TaskRow,
            r#"SELECT t.id AS "id!", t.ticket_id AS "ticket_id!", t.project_id AS "project_id!", t.phase_id,
                      t.task_type AS "task_type!", t.title AS "title!", t.description AS "description!",
                      t.priority AS "priority!", t.status AS "status!", t.sandbox_id, t.assigned_agent_id,
                      t.attempt AS "attempt!", t.outcome, t.result, t.error_message, t.execution_config AS "execution_config!",
                      t.created_at AS "created_at!", t.updated_at AS "updated_at!", t.started_at, t.completed_at
               FROM tasks AS t "# + $tail
            $(, $arg)*
        )
    };
}
pub(crate) use task_query;

/// Selects whole events (`e`).
macro_rules! event_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            sunaba_store_sql::rows::EventRow,
            r#"SELECT e.sandbox_id AS "sandbox_id!", e.seq AS "seq!", e.event_id AS "event_id!",
                      e.event_type AS "event_type!", e.source AS "source!", e.payload AS "payload!",
                      e.created_at AS "created_at!", e.payload_hash AS "payload_hash!", e.hash AS "hash!"
               FROM events AS e "# + $tail
            $(, $arg)*
        )
    };
}
pub(crate) use event_query;

/// Selects conversations (`x`).
macro_rules! transcript_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            sunaba_store_sql::rows::TranscriptRow,
            r#"SELECT x.sandbox_id AS "sandbox_id!", x.session_id AS "session_id!", x.runtime AS "runtime!",
                      x.hash AS "hash!", x.size_bytes AS "size_bytes!", x.turns AS "turns!",
                      x.updated_at AS "updated_at!"
               FROM transcripts AS x "# + $tail
            $(, $arg)*
        )
    };
}
pub(crate) use transcript_query;

/// Ids or names as one argument.
pub(crate) fn list<'a>(items: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    items.into_iter().map(str::to_owned).collect()
}

/// A text that may come from anywhere, without the one character that PostgreSQL cannot hold.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}
