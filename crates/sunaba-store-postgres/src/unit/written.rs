//! Rows as PostgreSQL gets many at once: an array of a type that is there for them (migration 0007), whose fields are
//! those of the structs here, in their order.

use sqlx::postgres::{PgHasArrayType, PgTypeInfo};
use sqlx::{Encode, Postgres, Type};
use sunaba_store_sql::draft::{ChangedLog, Draft, NewEventRow, NewFeedRow};
use sunaba_store_sql::facts::Turn;
use sunaba_types::chain::Hash;
use sunaba_types::{ProjectId, SandboxId, Task, Timestamp};

use crate::fault::Unreadable;
use crate::rows::{readable, time};

/// Says which type of the database a struct is.
macro_rules! is_type {
    ($struct:ident $(<$life:lifetime>)?, $name:literal) => {
        impl Type<Postgres> for $struct $(<$life>)? {
            fn type_info() -> PgTypeInfo {
                PgTypeInfo::with_name($name)
            }
        }

        impl PgHasArrayType for $struct $(<$life>)? {
            fn array_type_info() -> PgTypeInfo {
                PgTypeInfo::array_of($name)
            }
        }
    };
}

/// An event.
#[derive(Debug, Encode)]
pub(super) struct WrittenEvent<'a> {
    sandbox_id: &'a str,
    seq: i64,
    event_id: &'a str,
    event_type: &'a str,
    type_seq: i64,
    source: &'a str,
    class: i16,
    created_at: i64,
    payload: &'a [u8],
    payload_hash: &'a [u8],
    hash: &'a [u8],
    step: Option<&'a str>,
}
is_type!(WrittenEvent<'_>, "written_event");

impl<'a> WrittenEvent<'a> {
    pub(super) fn all(rows: &'a [NewEventRow]) -> Vec<Self> {
        rows.iter().map(Self::of).collect()
    }

    fn of(row: &'a NewEventRow) -> Self {
        Self {
            sandbox_id: row.sandbox_id.as_str(),
            seq: row.seq,
            event_id: &row.event_id,
            event_type: &row.event_type,
            type_seq: row.type_seq,
            source: row.source,
            class: row.class,
            created_at: row.created_at,
            payload: row.payload.as_str().as_bytes(),
            payload_hash: &row.payload_hash,
            hash: &row.hash,
            step: row.step.as_deref(),
        }
    }
}

/// An entry of the feed, which has no position yet.
#[derive(Debug, Encode)]
pub(super) struct WrittenEntry<'a> {
    project_id: Option<&'a str>,
    event_type: &'a str,
    entity_type: &'a str,
    entity_id: &'a str,
    sandbox_id: Option<&'a str>,
    seq: Option<i64>,
    payload: Option<&'a str>,
    created_at: i64,
}
is_type!(WrittenEntry<'_>, "written_entry");

impl<'a> WrittenEntry<'a> {
    pub(super) fn all(rows: &'a [NewFeedRow]) -> Vec<Self> {
        rows.iter().map(Self::of).collect()
    }

    fn of(row: &'a NewFeedRow) -> Self {
        Self {
            project_id: row.project_id.as_ref().map(ProjectId::as_str),
            event_type: &row.event_type,
            entity_type: row.entity_type,
            entity_id: &row.entity_id,
            sandbox_id: row.sandbox_id.as_ref().map(SandboxId::as_str),
            seq: row.seq(),
            payload: row.notice(),
            created_at: row.created_at.as_microsecond(),
        }
    }
}

/// The end of a log.
#[derive(Debug, Encode)]
pub(super) struct WrittenLog<'a> {
    sandbox_id: &'a str,
    known_hash: Option<&'a [u8]>,
    last_seq: i64,
    last_hash: &'a [u8],
    heartbeat_count: i64,
    first_heartbeat: Option<i64>,
    last_heartbeat: Option<i64>,
    story_count: i64,
    noise_count: i64,
    type_count: i64,
    noisy_count: i64,
    silence_seconds: i64,
    alive_until: Option<i64>,
    open_turn: Option<[i64; 9]>,
}
is_type!(WrittenLog<'_>, "written_log");

impl<'a> WrittenLog<'a> {
    /// Those that changed, in the order of their ids; afterwards they count as written.
    pub(super) fn take(draft: &'a mut Draft) -> Vec<Self> {
        draft.take_changed_logs().into_iter().map(|changed| Self::of(changed, None)).collect()
    }

    /// The same for logs that all changed, with the last hashes that they had.
    pub(super) fn take_known(draft: &'a mut Draft, hashes: &'a [Hash]) -> Vec<Self> {
        let changed = draft.take_changed_logs();
        debug_assert_eq!(changed.len(), hashes.len(), "whoever knows a log's end has moved it");
        changed.into_iter().zip(hashes).map(|(changed, hash)| Self::of(changed, Some(hash))).collect()
    }

    fn of(changed: ChangedLog<'a>, known: Option<&'a Hash>) -> Self {
        let log = changed.log;
        Self {
            sandbox_id: changed.sandbox_id.as_str(),
            known_hash: known.map(|hash| &hash[..]),
            last_seq: log.last_seq,
            last_hash: &log.last_hash,
            heartbeat_count: log.heartbeat_count,
            first_heartbeat: log.first_heartbeat.map(Timestamp::as_microsecond),
            last_heartbeat: log.last_heartbeat.map(Timestamp::as_microsecond),
            story_count: log.story_count,
            noise_count: log.noise_count,
            type_count: log.type_count,
            noisy_count: log.noisy_count,
            silence_seconds: log.silence_seconds,
            alive_until: changed.alive_until.map(Timestamp::as_microsecond),
            open_turn: changed.open_turn.map(|(number, turn)| numbers_of(*number, turn)),
        }
    }
}

/// What is added to a turn that is over.
#[derive(Debug, Encode)]
pub(super) struct WrittenTurn {
    sandbox_id: String,
    turn: i64,
    first_seq: i64,
    last_seq: i64,
    started_at: i64,
    ended_at: i64,
    tools: i64,
    errors: i64,
    edits: i64,
    messages: i64,
}
is_type!(WrittenTurn, "written_turn");

impl WrittenTurn {
    /// What is added; afterwards it counts as written.
    pub(super) fn take(draft: &mut Draft) -> Vec<Self> {
        draft.take_closed_turns().into_iter().map(Self::of).collect()
    }

    fn of((id, number, over): (SandboxId, i64, Turn)) -> Self {
        let [turn, first_seq, last_seq, started_at, ended_at, tools, errors, edits, messages] =
            numbers_of(number, &over);
        let sandbox_id = id.into();
        Self { sandbox_id, turn, first_seq, last_seq, started_at, ended_at, tools, errors, edits, messages }
    }
}

/// A name that a sandbox uses: a type of events, an open search call.
#[derive(Debug, Encode)]
pub(super) struct WrittenName {
    sandbox_id: String,
    name: String,
}
is_type!(WrittenName, "written_name");

impl WrittenName {
    /// Types of which a sandbox has its first event; afterwards they count as written.
    pub(super) fn take_types(draft: &mut Draft) -> Vec<Self> {
        let types = draft.take_changed_types().into_iter();
        let new = types.filter_map(|(id, name, _, is_new)| is_new.then_some((id, name)));
        new.map(|(id, name)| Self { sandbox_id: id.to_string(), name }).collect()
    }

    pub(super) fn all(names: Vec<(SandboxId, String)>) -> Vec<Self> {
        names.into_iter().map(|(id, name)| Self { sandbox_id: id.into(), name }).collect()
    }
}

/// A task as it is remembered.
#[derive(Debug, Encode)]
pub(super) struct KnownTask<'a> {
    id: &'a str,
    attempt: i64,
    status: &'a str,
}
is_type!(KnownTask<'_>, "known_task");

impl<'a> KnownTask<'a> {
    /// In the order of their ids, in which everybody locks them.
    pub(super) fn all(tasks: impl Iterator<Item = &'a Task>) -> Vec<Self> {
        let of = |task: &'a Task| Self {
            id: task.id.as_str(),
            attempt: task.attempt,
            status: task.status.as_str(),
        };
        let mut known: Vec<Self> = tasks.map(of).collect();
        known.sort_unstable_by_key(|task| task.id);
        known
    }
}

/// A turn as the numbers that are kept of it.
fn numbers_of(number: i64, turn: &Turn) -> [i64; 9] {
    let (started, ended) = (turn.started_at.as_microsecond(), turn.ended_at.as_microsecond());
    let Turn { first_seq, last_seq, tools, errors, edits, messages, .. } = *turn;
    [number, first_seq, last_seq, started, ended, tools, errors, edits, messages]
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
