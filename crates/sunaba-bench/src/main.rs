//! Measures the speeds that the design promises, in one run, beside the limits
//! of what they stand on: SQLite's and PostgreSQL's own commits and a bare HTTP handler.
//!
//! `make bench` builds the release binaries and prints a table. Machines are
//! noisy: read the ratios, not the figures. `--only PART` measures one part (see [`options::PARTS`]), `--quick`
//! only tries the parts on PostgreSQL and growth, `--full` adds growth up to ten million events.

mod agent;
mod alive;
mod bare;
mod claim;
mod client;
mod crowd;
mod docker;
mod fanout;
mod frames;
mod gateway;
mod growth;
mod ingest;
mod messages;
mod model;
mod options;
mod pages;
mod postgres;
mod sandboxes;
mod server;
mod sqlite;
mod start;
mod table;

use std::io::Write;
use std::process::ExitCode;

use options::{Options, Part, Scale};
use table::Table;

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut table = Table::default();
    let mut code = ExitCode::SUCCESS;
    for (name, part) in options.parts {
        eprintln!("-- {name}");
        // A part that fails takes nothing from the others: what they measured is shown all the same.
        if let Err(error) = runtime.block_on(measure(part, options.scale, &mut table)) {
            table.row(name, "not measured", format!("{error:#}"));
            code = ExitCode::FAILURE;
        }
    }
    write!(std::io::stdout(), "\n{table}")?;
    Ok(code)
}

async fn measure(part: Part, scale: Scale, table: &mut Table) -> anyhow::Result<()> {
    match part {
        Part::Start => start::measure(table).await,
        Part::Alive => alive::measure(table).await,
        Part::Gateway => gateway::measure(table).await,
        Part::Agent => agent::measure(table).await,
        Part::Ingest => ingest::measure(table).await,
        Part::Fanout => fanout::measure(table).await,
        Part::Messages => messages::measure(table).await,
        Part::Pages => pages::measure(table).await,
        Part::Growth => growth::on_sqlite(table, scale).await,
        Part::PostgresStart => postgres::start::measure(table, scale).await,
        Part::PostgresIngest => postgres::ingest::measure(table, scale).await,
        Part::PostgresFanout => postgres::latency::fanout(table, scale).await,
        Part::PostgresMessages => postgres::latency::messages(table, scale).await,
        Part::PostgresPages => postgres::pages::measure(table, scale).await,
        Part::PostgresClaim => postgres::claim::measure(table, scale).await,
        Part::PostgresGrowth => growth::on_postgres(table, scale).await,
    }
}
