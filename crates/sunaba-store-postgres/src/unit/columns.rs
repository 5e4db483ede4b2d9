//! Rows by column, as PostgreSQL takes many at once.

use sunaba_store_sql::draft::{Draft, NewEventRow, NewFeedRow};
use sunaba_store_sql::facts::Turn;
use sunaba_types::{ProjectId, SandboxId, Timestamp};

use crate::fault::Unreadable;
use crate::rows::{readable, time};

/// Logs by column.
#[derive(Debug, Default)]
pub(super) struct LogColumns {
    pub(super) sandbox_id: Vec<String>,
    pub(super) last_hash: Vec<Vec<u8>>,
    pub(super) first_heartbeat: Vec<Option<i64>>,
    pub(super) last_heartbeat: Vec<Option<i64>>,
    pub(super) alive_until: Vec<Option<i64>>,
    /// Arrays of numbers as text: an array of arrays would be one long array.
    pub(super) open_turn: Vec<Option<String>>,
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
            columns.open_turn.push(changed.open_turn.map(array_text));
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

/// Types of which a sandbox has its first event, by column.
#[derive(Debug, Default)]
pub(super) struct TypeColumns {
    pub(super) sandbox_id: Vec<String>,
    pub(super) event_type: Vec<String>,
}

impl TypeColumns {
    /// Those that are new; afterwards they count as written.
    pub(super) fn take(draft: &mut Draft) -> Self {
        let mut columns = Self::default();
        for (id, name, _, is_new) in draft.take_changed_types() {
            if is_new {
                columns.sandbox_id.push(id.to_string());
                columns.event_type.push(name);
            }
        }
        columns
    }
}

/// What is added to turns that are over, by column.
#[derive(Debug, Default)]
pub(super) struct TurnColumns {
    pub(super) sandbox_id: Vec<String>,
    /// Turn, first and last event, begin, end, tools, errors, edits, messages.
    pub(super) numbers: [Vec<i64>; 9],
}

impl TurnColumns {
    /// What is added; afterwards it counts as written.
    pub(super) fn take(draft: &mut Draft) -> Self {
        let mut columns = Self::default();
        for (id, number, turn) in draft.take_closed_turns() {
            columns.sandbox_id.push(id.into());
            for (column, number) in columns.numbers.iter_mut().zip(numbers_of(number, &turn)) {
                column.push(number);
            }
        }
        columns
    }
}

/// A turn as the numbers that are kept of it.
fn numbers_of(number: i64, turn: &Turn) -> [i64; 9] {
    let (started, ended) = (turn.started_at.as_microsecond(), turn.ended_at.as_microsecond());
    let Turn { first_seq, last_seq, tools, errors, edits, messages, .. } = *turn;
    [number, first_seq, last_seq, started, ended, tools, errors, edits, messages]
}

/// The numbers of an open turn as PostgreSQL writes an array.
fn array_text((number, turn): &(i64, Turn)) -> String {
    let numbers = numbers_of(*number, turn).map(|number| number.to_string());
    format!("{{{}}}", numbers.join(","))
}

/// An open turn from the numbers that are kept of it.
pub(super) fn open_turn(numbers: &[i64], key: &str) -> Result<(i64, Turn), Unreadable> {
    const COLUMN: (&str, &str) = ("sandbox_log", "open_turn");
    let all: Option<&[i64; 9]> = numbers.try_into().ok();
    let &[number, first_seq, last_seq, started, ended, tools, errors, edits, messages] =
        readable(all, COLUMN.0, COLUMN.1, key)?;
    let at = |micros| time(micros, COLUMN.0, COLUMN.1, key);
    let (started_at, ended_at) = (at(started)?, at(ended)?);
    Ok((number, Turn { first_seq, last_seq, started_at, ended_at, tools, errors, edits, messages }))
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
