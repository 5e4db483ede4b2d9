//! How many events a second are acknowledged on PostgreSQL, beside what pgbench commits of the same rows.

use super::pgbench::{CLIENTS, Script, Yardstick};
use super::{Ground, nodes_text};
use crate::ingest::{CONNECTIONS, SECONDS, run};
use crate::options::Scale;
use crate::table::{Delays, Table, median, times};

pub(crate) async fn measure(table: &mut Table, scale: Scale) -> anyhow::Result<()> {
    let ground = Ground::start();
    for nodes in [1, 2] {
        on_nodes(table, scale, &ground, nodes).await?;
    }
    Ok(())
}

/// Ours and theirs of one size, over all rounds.
#[derive(Debug, Default)]
struct Rounds {
    ours: Vec<f64>,
    delays: Delays,
    theirs: Vec<f64>,
}

async fn on_nodes(table: &mut Table, scale: Scale, ground: &Ground, nodes: usize) -> anyhow::Result<()> {
    let database = ground.database();
    let servers = ground.nodes(&database, nodes).await?;
    let mut yardstick = Yardstick::new(ground, &database)?;
    let seconds = scale.of(1.0, SECONDS);
    let (mut single, mut batched) = (Rounds::default(), Rounds::default());
    for _ in 0..scale.of(2, 5) {
        for (size, script, rounds) in
            [(1, Script::OneRow, &mut single), (100, Script::HundredRows, &mut batched)]
        {
            ground.settle();
            let (rate, delays) = run(&servers, "bench", size, seconds).await?;
            rounds.ours.push(rate);
            rounds.delays.extend(delays);
            ground.settle();
            rounds.theirs.push(yardstick.rows_per_second(script, seconds).await?);
        }
    }
    let nodes = nodes_text(nodes);
    let mut row = |what: &str, theirs: &str, wanted: &str, mut rounds: Rounds| {
        let (ours, limit) = (median(&rounds.ours), median(&rounds.theirs));
        table.row(
            &format!("ingest on PostgreSQL, {what}, {CONNECTIONS} connections, {nodes}"),
            format!("{ours:.0} events/s, {}", rounds.delays.describe()),
            format!(
                "{} pgbench's {limit:.0} rows/s {theirs}, {CLIENTS} clients ({wanted})",
                times(ours, limit)
            ),
        );
    };
    row("one event a request", "in single commits", "wanted > 1", single);
    row("batches of 100", "in 100-row inserts", "wanted ≥ 0.5", batched);
    Ok(())
}
