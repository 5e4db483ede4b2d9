//! How long a server on PostgreSQL takes to be ready, and what it needs when idle.

use std::time::Duration;

use super::{Ground, Hints};
use crate::options::Scale;
use crate::server::Server;
use crate::table::{Delays, Table, times};

pub(crate) async fn measure(table: &mut Table, scale: Scale) -> anyhow::Result<()> {
    let ground = Ground::start();
    let used = ground.database();
    drop(ground.nodes(&used, 1).await?);
    let (mut empty, mut known, mut sqlite) = (Delays::default(), Delays::default(), Delays::default());
    // In turns, so that what else the machine does meets all alike.
    for _ in 0..scale.of(2, 5) {
        empty.push(ground.node(&ground.database(), Hints::Redis).start().await?.ready_after);
        known.push(ground.node(&used, Hints::Redis).start().await?.ready_after);
        sqlite.push(Server::start().await?.ready_after);
    }
    let beside = sqlite.quantile_ms(0.5);
    for (what, mut delays) in [("empty database", empty), ("a database with its tables", known)] {
        let ready = delays.quantile_ms(0.5);
        table.row(
            &format!("server on PostgreSQL ready, new data directory, {what}"),
            format!("p50 {ready:.0} ms"),
            format!("wanted ≤ 300 ms; on SQLite p50 {beside:.0} ms: {}", times(ready, beside)),
        );
    }
    let (on_postgres, on_sqlite) = (ground.nodes(&used, 1).await?, Server::start().await?);
    // What the start itself needed is given back by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (resident, beside) = (on_postgres[0].resident_mib()?, on_sqlite.resident_mib()?);
    table.row(
        "server on PostgreSQL idle, resident",
        format!("{resident:.1} MiB"),
        format!("on SQLite {beside:.1} MiB (wanted ≤ 40 MiB): {}", times(resident, beside)),
    );
    Ok(())
}
