//! How long a node takes to take up a sandbox that waits, and whether a longer queue makes it slower.

use super::pgbench::{Script, Yardstick};
use super::{Ground, nodes_text};
use crate::claim::{CLAIMS, Queue, WANTED, claim, look, open_postgres};
use crate::options::Scale;
use crate::table::{Table, grouped, times};

pub(crate) async fn measure(table: &mut Table, scale: Scale) -> anyhow::Result<()> {
    let ground = Ground::start();
    let claims = scale.of(10, CLAIMS);
    let sizes: [usize; 3] = scale.of([50, 100, 200], [1_000, 10_000, 100_000]);
    for nodes in [1, 2] {
        let database = ground.database();
        let mut stores = Vec::new();
        for _ in 0..nodes {
            stores.push(open_postgres(&database.url).await?);
        }
        let mut yardstick = Yardstick::new(&ground, &database)?;
        let mut queue = Queue::new(&*stores[0]).await?;
        let mut first_p50 = None;
        for size in sizes {
            queue.grow_to(&stores[0], size).await?;
            ground.settle();
            let bare = yardstick.run(Script::OneRow, 1, scale.of(1.0, 3.0)).await?.latency_ms;
            let mut delays = claim(&stores, queue.take(claims)).await?;
            let p50 = delays.quantile_ms(0.5);
            let smallest = *first_p50.get_or_insert(p50);
            let (place, size) = (nodes_text(nodes), grouped(size as u64));
            table.row(
                &format!("claim on PostgreSQL, {size} sandboxes wait, {place}"),
                delays.describe(),
                format!(
                    "{WANTED}; {} its p50 with {}; {} pgbench's commit of one row with one client, {bare:.1} ms",
                    times(p50, smallest),
                    grouped(sizes[0] as u64),
                    times(p50, bare)
                ),
            );
            let mut looks = look(&*stores[0], scale.of(3, 20)).await?;
            let what = format!("a node's list of what waits on PostgreSQL, {size} sandboxes wait, {place}");
            table.row(&what, looks.describe(), "what it looks through before it claims; at most 10,000 rows");
        }
        for store in stores {
            store.close().await;
        }
    }
    Ok(())
}
