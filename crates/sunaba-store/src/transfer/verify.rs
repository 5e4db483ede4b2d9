//! Whether everything has arrived, and is as it was.

use sha2::{Digest as _, Sha256};
use sunaba_types::SandboxId;
use sunaba_types::chain::Hash;

use super::cell::encode;
use super::{Cell, Row, Source, TABLES, Table};
use crate::{Error, Result, Store, walk_chain};

/// How many rows a table has, and the SHA-256 of them all as lines, in the order of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSum {
    /// Which.
    pub table: &'static Table,
    /// How many rows.
    pub rows: i64,
    /// Of every row's line with its end.
    pub sha256: Hash,
}

/// Sums up tables, row by row.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    done: Vec<TableSum>,
    under_way: Option<(&'static Table, i64, Sha256)>,
}

impl Sums {
    /// Counts one more line of a table; the tables come one after the other.
    pub fn add(&mut self, table: &'static Table, line: &str) {
        if self.under_way.as_ref().is_none_or(|(current, ..)| current.name != table.name) {
            self.turn();
            self.under_way = Some((table, 0, Sha256::new()));
        }
        if let Some((_, rows, hasher)) = &mut self.under_way {
            *rows += 1;
            hasher.update(line);
            hasher.update(b"\n");
        }
    }

    fn turn(&mut self) {
        if let Some((table, rows, hasher)) = self.under_way.take() {
            self.done.push(TableSum { table, rows, sha256: hasher.finalize().into() });
        }
    }

    /// Every table, also those without a row.
    pub fn finish(mut self) -> Vec<TableSum> {
        self.turn();
        let empty = Sha256::new().finalize().into();
        let of = |table: &'static Table| {
            let found = self.done.iter().find(|sum| sum.table.name == table.name).copied();
            found.unwrap_or(TableSum { table, rows: 0, sha256: empty })
        };
        TABLES.iter().map(of).collect()
    }

    /// Sums up a whole store.
    pub async fn of(source: &mut dyn Source) -> Result<Vec<TableSum>> {
        let mut sums = Self::default();
        for table in &TABLES {
            let mut after = None;
            loop {
                let rows = source.batch(table, after.as_deref()).await?;
                let Some(last) = rows.last() else { break };
                rows.iter().for_each(|row| sums.add(table, &encode(row)));
                after = Some(table.key_of(last));
            }
        }
        Ok(sums.finish())
    }
}

/// What was found to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Every table.
    pub tables: Vec<TableSum>,
    /// How many logs' chains were walked.
    pub sandboxes: i64,
    /// How many events they have.
    pub events: i64,
}

/// Checks that a store has everything of a source, no more, and that every chain holds.
pub async fn verify(source: &mut dyn Source, store: &dyn Store) -> Result<Verified> {
    let expected = Sums::of(source).await?;
    let feed_head = source.feed_head().await?;
    against(&expected, feed_head, store).await
}

/// The same against sums that were made elsewhere.
async fn against(expected: &[TableSum], feed_head: i64, store: &dyn Store) -> Result<Verified> {
    let mut written = store.read_whole().await?;
    let tables = Sums::of(&mut *written).await?;
    for (expected, found) in expected.iter().zip(&tables) {
        let name = expected.table.name;
        if expected.rows != found.rows {
            let detail = format!("{name} has {} rows and should have {}", found.rows, expected.rows);
            return Err(mismatch(detail));
        }
        if expected.sha256 != found.sha256 {
            return Err(mismatch(format!("{name} has rows that are not as they were")));
        }
    }
    let found = store.feed_head().await?;
    if found != feed_head {
        return Err(mismatch(format!("the feed ends at {found} and should end at {feed_head}")));
    }
    let (sandboxes, events) = chains(store, &mut *written).await?;
    let rows = tables.iter().find(|sum| sum.table.name == "events").map_or(0, |sum| sum.rows);
    if events != rows {
        return Err(mismatch(format!("{rows} events are kept and the logs have {events}")));
    }
    Ok(Verified { tables, sandboxes, events })
}

/// Walks every log's chain; gives how many logs and how many events there are.
pub async fn chains(store: &dyn Store, logs: &mut dyn Source) -> Result<(i64, i64)> {
    let table = Table::named("sandbox_log").expect("it is in the list");
    let (mut sandboxes, mut events, mut after) = (0, 0, None);
    loop {
        let rows = logs.batch(table, after.as_deref()).await?;
        let Some(last) = rows.last() else { return Ok((sandboxes, events)) };
        after = Some(table.key_of(last));
        for row in &rows {
            let id = owner(row)?;
            let head = store.log_head(&id).await?;
            let walked = walk_chain(store, &id, &head).await?;
            if let Some(seq) = walked.first_bad_seq {
                return Err(mismatch(format!("event {seq} of the sandbox {id} is not as it was written")));
            }
            sandboxes += 1;
            events += walked.events;
        }
    }
}

fn owner(row: &Row) -> Result<SandboxId> {
    let id = match row.first() {
        Some(Cell::Text(id)) => SandboxId::parse(id.as_str()).ok(),
        _ => None,
    };
    id.ok_or_else(|| mismatch("a log has no sandbox".to_owned()))
}

fn mismatch(detail: String) -> Error {
    Error::Conflict { code: "not_as_it_was", detail }
}
