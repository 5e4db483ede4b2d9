//! Rows that come in numbers, inserted many at a time.
//!
//! Every statement costs a hop to the connection's thread, so a statement takes
//! up to 256 rows. Only powers of two are used: nine statements a table, each
//! prepared once, and a batch of any size needs at most a handful of them.
//! (Passing the rows as one JSON text would take one statement, and twice the
//! time in SQLite.)

use std::sync::LazyLock;

use sqlx::SqliteConnection;
use sunaba_store_sql::draft::{NewEventRow, NewFeedRow};
use sunaba_types::{ProjectId, SandboxId};

const LARGEST: usize = 256;

static EVENTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let columns = "sandbox_id, seq, event_id, event_type, type_seq, source, class, created_at, payload,
                   payload_hash, hash, step";
    statements("events", columns, "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
});

static FEED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let columns =
        "position, project_id, event_type, entity_type, entity_id, sandbox_id, seq, payload, created_at";
    statements("feed", columns, "(?, ?, ?, ?, ?, ?, ?, ?, ?)")
});

/// The insert of 1, 2, 4 … rows.
fn statements(table: &str, columns: &str, row: &str) -> Vec<String> {
    let sizes = std::iter::successors(Some(1), |rows| (*rows < LARGEST).then_some(rows * 2));
    sizes
        .map(|rows| format!("INSERT INTO {table} ({columns}) VALUES {}", vec![row; rows].join(", ")))
        .collect()
}

/// Splits rows into parts whose sizes are powers of two, largest first, with the statement for each.
fn parts<'a, T>(statements: &'static [String], mut rows: &'a [T]) -> Vec<(&'static str, &'a [T])> {
    let mut parts = Vec::new();
    while !rows.is_empty() {
        let power = rows.len().min(LARGEST).ilog2();
        let (part, rest) = rows.split_at(1 << power);
        parts.push((statements[power as usize].as_str(), part));
        rows = rest;
    }
    parts
}

pub(super) async fn insert_events(
    connection: &mut SqliteConnection,
    rows: &[NewEventRow],
) -> Result<(), sqlx::Error> {
    for (statement, part) in parts(&EVENTS, rows) {
        let mut query = sqlx::query(statement);
        for row in part {
            query = query
                .bind(row.sandbox_id.as_str())
                .bind(row.seq)
                .bind(row.event_id.as_str())
                .bind(row.event_type.as_str())
                .bind(row.type_seq)
                .bind(row.source)
                .bind(row.class)
                .bind(row.created_at)
                .bind(row.payload.as_str())
                .bind(row.payload_hash.as_slice())
                .bind(row.hash.as_slice())
                .bind(row.step.as_deref());
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

/// Inserts feed rows at the positions after `position`.
pub(super) async fn insert_feed(
    connection: &mut SqliteConnection,
    mut position: i64,
    rows: &[NewFeedRow],
) -> Result<i64, sqlx::Error> {
    for (statement, part) in parts(&FEED, rows) {
        let mut query = sqlx::query(statement);
        for row in part {
            position += 1;
            query = query
                .bind(position)
                .bind(row.project_id.as_ref().map(ProjectId::as_str))
                .bind(row.event_type.as_str())
                .bind(row.entity_type)
                .bind(row.entity_id.as_str())
                .bind(row.sandbox_id.as_ref().map(SandboxId::as_str))
                .bind(row.seq())
                .bind(row.notice())
                .bind(row.created_at.as_microsecond());
        }
        query.execute(&mut *connection).await?;
    }
    Ok(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_every_row_once_and_fit_their_statement() {
        let rows: Vec<usize> = (0..700).collect();
        for count in [0, 1, 3, 100, 255, 256, 257, 700] {
            let parts = parts(&FEED, &rows[..count]);
            let held: Vec<usize> = parts.iter().flat_map(|(_, part)| part.iter().copied()).collect();
            assert_eq!(held, rows[..count]);
            for (statement, part) in parts {
                assert_eq!(statement.matches('?').count(), part.len() * 9);
            }
        }
    }
}
