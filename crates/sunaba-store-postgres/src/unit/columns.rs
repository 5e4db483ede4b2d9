//! Rows by column, as PostgreSQL takes many at once.

use sunaba_store_sql::draft::{Draft, NewEventRow, NewFeedRow};
use sunaba_types::{ProjectId, SandboxId, Timestamp};

/// Logs by column.
#[derive(Debug, Default)]
pub(super) struct LogColumns {
    pub(super) sandbox_id: Vec<String>,
    pub(super) last_hash: Vec<Vec<u8>>,
    pub(super) first_heartbeat: Vec<Option<i64>>,
    pub(super) last_heartbeat: Vec<Option<i64>>,
    pub(super) alive_until: Vec<Option<i64>>,
    /// Last event, heartbeats, story, noise, types, open searches, silence.
    pub(super) numbers: [Vec<i64>; 7],
}

impl LogColumns {
    /// Those that changed; afterwards they count as written.
    pub(super) fn take(draft: &mut Draft) -> Self {
        let mut columns = Self::default();
        for changed in draft.take_changed_logs() {
            let log = changed.log;
            columns.sandbox_id.push(changed.sandbox_id.to_string());
            columns.last_hash.push(log.last_hash.to_vec());
            columns.first_heartbeat.push(log.first_heartbeat.map(Timestamp::as_microsecond));
            columns.last_heartbeat.push(log.last_heartbeat.map(Timestamp::as_microsecond));
            columns.alive_until.push(changed.alive_until.map(Timestamp::as_microsecond));
            let numbers = [
                log.last_seq,
                log.heartbeat_count,
                log.story_count,
                log.noise_count,
                log.type_count,
                log.noisy_count,
                log.silence_seconds,
            ];
            for (column, number) in columns.numbers.iter_mut().zip(numbers) {
                column.push(number);
            }
        }
        columns
    }
}

/// How many events of a type there are, apart for types that have a row and those that are new.
#[derive(Debug, Default)]
pub(super) struct Types {
    pub(super) new: TypeColumns,
    pub(super) held: TypeColumns,
}

/// See [`Types`], by column.
#[derive(Debug, Default)]
pub(super) struct TypeColumns {
    pub(super) sandbox_id: Vec<String>,
    pub(super) event_type: Vec<String>,
    pub(super) count: Vec<i64>,
}

impl Types {
    /// Those that changed; afterwards they count as written.
    pub(super) fn take(draft: &mut Draft) -> Self {
        let mut types = Self::default();
        for (id, name, count, is_new) in draft.take_changed_types() {
            let columns = if is_new { &mut types.new } else { &mut types.held };
            columns.sandbox_id.push(id.to_string());
            columns.event_type.push(name);
            columns.count.push(count);
        }
        types
    }
}

/// What is added to turns of the outline, apart for those that are known to have a row and the rest.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) unsure: TurnColumns,
    pub(super) held: TurnColumns,
}

/// See [`Turns`], by column.
#[derive(Debug, Default)]
pub(super) struct TurnColumns {
    pub(super) sandbox_id: Vec<String>,
    /// Turn, first and last event, begin, end, tools, errors, edits, messages.
    pub(super) numbers: [Vec<i64>; 9],
}

impl Turns {
    /// What is added; afterwards it counts as written.
    pub(super) fn take(draft: &mut Draft) -> Self {
        let mut turns = Self::default();
        for ((id, number), turn) in std::mem::take(&mut draft.turns) {
            let loaded = draft.find_sandbox(&id);
            let known = loaded.is_some_and(|loaded| loaded.outlined.replace(number) == Some(number));
            let columns = if known { &mut turns.held } else { &mut turns.unsure };
            columns.sandbox_id.push(id.into());
            let (started, ended) = (turn.started_at.as_microsecond(), turn.ended_at.as_microsecond());
            let counts = [turn.tools, turn.errors, turn.edits, turn.messages];
            let numbers = [number, turn.first_seq, turn.last_seq, started, ended].into_iter().chain(counts);
            for (column, number) in columns.numbers.iter_mut().zip(numbers) {
                column.push(number);
            }
        }
        turns
    }
}

/// Events by column.
#[derive(Debug, Default)]
pub(super) struct EventColumns<'a> {
    pub(super) sandbox_id: Vec<&'a str>,
    pub(super) seq: Vec<i64>,
    pub(super) event_id: Vec<&'a str>,
    pub(super) event_type: Vec<&'a str>,
    pub(super) type_seq: Vec<i64>,
    pub(super) source: Vec<&'static str>,
    pub(super) class: Vec<i16>,
    pub(super) created_at: Vec<i64>,
    pub(super) payload: Vec<&'a [u8]>,
    pub(super) payload_hash: Vec<&'a [u8]>,
    pub(super) hash: Vec<&'a [u8]>,
    pub(super) step: Vec<Option<&'a str>>,
}

impl<'a> EventColumns<'a> {
    pub(super) fn of(rows: &'a [NewEventRow]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.sandbox_id.push(&row.sandbox_id);
            columns.seq.push(row.seq);
            columns.event_id.push(&row.event_id);
            columns.event_type.push(&row.event_type);
            columns.type_seq.push(row.type_seq);
            columns.source.push(row.source);
            columns.class.push(row.class);
            columns.created_at.push(row.created_at);
            columns.payload.push(row.payload.as_str().as_bytes());
            columns.payload_hash.push(&row.payload_hash);
            columns.hash.push(&row.hash);
            columns.step.push(row.step.as_deref());
        }
        columns
    }
}

/// Feed entries by column.
#[derive(Debug, Default)]
pub(super) struct FeedColumns<'a> {
    pub(super) project_id: Vec<Option<&'a str>>,
    pub(super) event_type: Vec<&'a str>,
    pub(super) entity_type: Vec<&'static str>,
    pub(super) entity_id: Vec<&'a str>,
    pub(super) sandbox_id: Vec<Option<&'a str>>,
    pub(super) seq: Vec<Option<i64>>,
    pub(super) payload: Vec<Option<&'a str>>,
    pub(super) created_at: Vec<i64>,
}

impl<'a> FeedColumns<'a> {
    pub(super) fn of(rows: &'a [NewFeedRow]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.project_id.push(row.project_id.as_ref().map(ProjectId::as_str));
            columns.event_type.push(&row.event_type);
            columns.entity_type.push(row.entity_type);
            columns.entity_id.push(&row.entity_id);
            columns.sandbox_id.push(row.sandbox_id.as_ref().map(SandboxId::as_str));
            columns.seq.push(row.seq());
            columns.payload.push(row.notice());
            columns.created_at.push(row.created_at.as_microsecond());
        }
        columns
    }
}
