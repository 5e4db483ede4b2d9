//! How soon subscribers have an event and workers a message on PostgreSQL: at the node that took it, and at another.

use super::{Ground, Hints};
use crate::messages::WANTED;
use crate::options::Scale;
use crate::server::{Server, Setup};
use crate::table::{Delays, Table, grouped, times};

/// Where something is said and where it is heard.
const WAYS: [(&str, usize, Hints); 3] = [
    ("1 node", 1, Hints::Redis),
    ("2 nodes, heard at the other", 2, Hints::Redis),
    ("2 nodes without Redis, heard at the other", 2, Hints::Postgres),
];

pub(crate) async fn fanout(table: &mut Table, scale: Scale) -> anyhow::Result<()> {
    let ground = Ground::start();
    let subscribers = scale.of(50, 1_000);
    let events = scale.of(100, crate::fanout::EVENTS);
    for (way, nodes, hints) in WAYS {
        let mut plain = crate::fanout::plain_sockets(subscribers, events).await?;
        let servers = start(&ground, nodes, hints, Setup::clone).await?;
        let (said_at, heard_at) = ends(&servers);
        let mut delays = crate::fanout::run(said_at, heard_at, subscribers, events).await?;
        let ratio = times(delays.quantile_ms(0.5), plain.quantile_ms(0.5));
        table.row(
            &format!(
                "event to subscriber on PostgreSQL after its acknowledgement, {} subscribers, 50 events/s, {way}",
                grouped(subscribers as u64)
            ),
            delays.describe(),
            format!("{WANTED}; plain sockets take {}: {ratio} their p50", plain.describe()),
        );
    }
    Ok(())
}

pub(crate) async fn messages(table: &mut Table, scale: Scale) -> anyhow::Result<()> {
    let ground = Ground::start();
    let count = scale.of(30, crate::messages::MESSAGES);
    for (way, nodes, hints) in WAYS {
        let servers = start(&ground, nodes, hints, |setup| setup.clone().without_auth()).await?;
        let (said_at, heard_at) = ends(&servers);
        let mut delays: Delays = crate::messages::run(said_at, heard_at, count).await?;
        let what = format!("message to worker on PostgreSQL after its acknowledgement, {way}");
        table.row(&what, delays.describe(), WANTED);
    }
    Ok(())
}

async fn start(
    ground: &Ground,
    count: usize,
    hints: Hints,
    with: fn(&Setup) -> Setup,
) -> anyhow::Result<Vec<Server>> {
    let setup = with(&ground.node(&ground.database(), hints));
    let mut servers = Vec::new();
    for _ in 0..count {
        servers.push(setup.clone().start().await?);
    }
    Ok(servers)
}

/// The first and the last: the same one where there is only one.
fn ends(servers: &[Server]) -> (&Server, &Server) {
    (&servers[0], &servers[servers.len() - 1])
}
