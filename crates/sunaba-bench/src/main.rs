//! Measures the speeds that the design promises, in one run, beside the limits
//! of what they stand on: SQLite's own commits and a bare HTTP handler.
//!
//! `make bench` builds the release binaries and prints a table. Machines are
//! noisy: read the ratios, not the figures. With the name of a part (`start`,
//! `alive`, `gateway`, `ingest`, `fanout`, `messages`, `pages`) only that part is measured.

mod alive;
mod bare;
mod client;
mod docker;
mod fanout;
mod frames;
mod gateway;
mod ingest;
mod messages;
mod pages;
mod sandboxes;
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
    let part = std::env::args().nth(1);
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    let mut table = Table::default();
    if wanted("start") {
        start::measure(&mut table).await?;
    }
    if wanted("alive") {
        alive::measure(&mut table).await?;
    }
    if wanted("gateway") {
        gateway::measure(&mut table).await?;
    }
    if wanted("ingest") {
        ingest::measure(&mut table).await?;
    }
    if wanted("fanout") {
        fanout::measure(&mut table).await?;
    }
    if wanted("messages") {
        messages::measure(&mut table).await?;
    }
    if wanted("pages") {
        pages::measure(&mut table).await?;
    }
    Ok(table)
}
