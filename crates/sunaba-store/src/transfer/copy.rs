//! Carries every table from one store into another.

use sha2::{Digest as _, Sha256};
use sunaba_types::chain::hex;

use super::cell::encode;
use super::verify::{Verified, verify};
use super::{Source, TABLES, Table, Target};
use crate::Result;

/// What has just been written.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Of which table.
    pub table: &'static Table,
    /// How many rows of it are in the target now, as far as this move knows.
    pub rows: i64,
    /// How many there will be.
    pub of: i64,
}

/// Tells one source, in one state, from all others: a server that ran on it meanwhile has left its beat, and
/// what was copied before would not fit what is copied after.
pub async fn identity(source: &mut dyn Source) -> Result<String> {
    let mut hasher = Sha256::new();
    hasher.update(source.feed_head().await?.to_be_bytes());
    for table in &TABLES {
        hasher.update(source.count(table).await?.to_be_bytes());
    }
    for table in TABLES.iter().filter(|table| ["nodes", "settings"].contains(&table.name)) {
        let mut after = None;
        loop {
            let rows = source.batch(table, after.as_deref()).await?;
            let Some(last) = rows.last() else { break };
            rows.iter().for_each(|row| hasher.update(encode(row)));
            after = Some(table.key_of(last));
        }
    }
    Ok(hex(&hasher.finalize()))
}

/// Copies everything that is not in the target yet. `told` hears of every batch.
pub async fn copy(
    source: &mut dyn Source,
    target: &mut dyn Target,
    told: &mut (dyn FnMut(Step) + Send),
) -> Result<()> {
    let identity = identity(source).await?;
    let reached = target.begin(&identity).await?;
    let first = reached.as_ref().map_or(0, |reached| reached.table.place());
    let mut after = reached.map(|reached| reached.key);
    for table in &TABLES[first..] {
        let mut step = Step { table, rows: 0, of: source.count(table).await? };
        loop {
            let rows = source.batch(table, after.as_deref()).await?;
            let Some(last) = rows.last() else { break };
            after = Some(table.key_of(last));
            step.rows += i64::try_from(rows.len()).unwrap_or(i64::MAX);
            target.write(table, rows).await?;
            told(step);
        }
        after = None;
    }
    target.settle(source.feed_head().await?).await
}

/// Copies everything, checks it, and lets servers open the target. What does not hold fails, and the target
/// stays marked.
pub async fn copy_and_verify(
    source: &mut dyn Source,
    target: &mut dyn Target,
    told: &mut (dyn FnMut(Step) + Send),
) -> Result<Verified> {
    copy(source, target, told).await?;
    check_and_finish(source, target).await
}

/// The second half of [`copy_and_verify`].
pub async fn check_and_finish(source: &mut dyn Source, target: &mut dyn Target) -> Result<Verified> {
    let store = target.open().await?;
    let verified = verify(source, &*store).await;
    store.close().await;
    let verified = verified?;
    target.finish().await?;
    Ok(verified)
}
