//! Measures the speeds that the design promises, in one run, beside the limits
//! of what they stand on: SQLite's own commits and a bare HTTP handler.
//!
//! `make bench` builds the release binaries and prints a table. Machines are
//! noisy: read the ratios, not the figures.

mod bare;
mod client;
mod fanout;
mod ingest;
mod messages;
mod pages;
mod server;
mod sqlite;
mod start;
mod table;

use std::io::Write;

use table::Table;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let table = runtime.block_on(measure())?;
    write!(std::io::stdout(), "\n{table}")?;
    Ok(())
}

async fn measure() -> anyhow::Result<Table> {
    let mut table = Table::default();
    let limits = sqlite::own_limits()?;
    let bare = bare::requests_per_second().await?;
    table.row("SQLite itself, single FULL commits", format!("{:.0}/s", limits.single_commits), "the limit");
    table.row(
        "SQLite itself, 100-row FULL transactions",
        format!("{:.0} rows/s", limits.hundred_rows),
        "the limit",
    );
    table.row("bare handler that parses the JSON, 64 connections", format!("{bare:.0}/s"), "the limit");
    start::measure(&mut table).await?;
    ingest::measure(&mut table, &limits, bare).await?;
    fanout::measure(&mut table).await?;
    messages::measure(&mut table).await?;
    pages::measure(&mut table).await?;
    Ok(table)
}
