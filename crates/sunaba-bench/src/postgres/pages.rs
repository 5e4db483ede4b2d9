//! Pages of a long log on PostgreSQL, beside what PostgreSQL itself takes to read the same rows.

use super::Ground;
use super::pgbench::{Script, Yardstick};
use crate::options::Scale;
use crate::pages::{DEEP, EVENTS, FILL_BATCH, WANTED, fill, read, read_two};
use crate::table::{Table, grouped, times};

/// As the script has it.
const LOG: &str = "bench-pages";

pub(crate) async fn measure(table: &mut Table, scale: Scale) -> anyhow::Result<()> {
    let events = scale.of(10_000, EVENTS);
    let ground = Ground::start();
    let database = ground.database();
    let servers = ground.nodes(&database, 2).await?;
    fill(&servers, 0..events / FILL_BATCH, |_| LOG.to_owned()).await?;
    ground.settle();
    let mut yardstick = Yardstick::new(&ground, &database)?;
    let script = Script::Page { before_seq: events / 2 };
    let own_ms = yardstick.run(script, 1, scale.of(1.0, 3.0)).await?.latency_ms;
    // Both nodes wrote the log, and either can be asked.
    for (what, mut delays) in read(&servers[0], LOG, events).await? {
        let mut beside = WANTED.to_owned();
        if what == DEEP {
            let ratio = times(delays.quantile_ms(0.5), own_ms);
            beside += &format!("; p50 {ratio} pgbench's {own_ms:.1} ms for the same rows by their key");
        }
        table.row(&row(events, what, "one node"), delays.describe(), beside);
    }
    for (what, mut delays) in
        ["first page of 100", "deep page"].into_iter().zip(read_two(&servers[1], LOG, events).await?)
    {
        table.row(&row(events, &format!("events, {what}"), "the other node"), delays.describe(), WANTED);
    }
    Ok(())
}

fn row(events: u64, what: &str, node: &str) -> String {
    format!("{} events on PostgreSQL: {what}, {node}", grouped(events))
}
