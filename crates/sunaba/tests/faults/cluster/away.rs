//! Promise 6: both servers are away under running sandboxes, and nothing is failed or tried again for it.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::runs::{Runs, last_words};
use super::world::World;
use super::{checker, number, seed};

/// The first command ends while the servers are away, so that the agent then wants a model that is not there.
const SCRIPT: &str = r#"
- text: "I wait."
  tools:
    - shell: "sleep 15"
- tools:
    - shell: "sleep 1; echo on"
- tools:
    - write: { path: a.txt, content: "waited\n" }
- text: "Done."
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn both_servers_stop_under_running_sandboxes_and_none_is_failed_or_requeued() -> anyhow::Result<()> {
    let away = Duration::from_secs(number("SUNABA_AWAY_SECONDS").unwrap_or(20));
    let count = number("SUNABA_AWAY_SANDBOXES").unwrap_or(4);
    println!("away: both servers for {away:?} under {count} sandboxes");
    let mut world = World::start().await?;
    let door = world.door()?;
    let mut random = StdRng::seed_from_u64(seed());
    let (runs, _repo) = Runs::prepare(&door, SCRIPT).await?;
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(runs.begin(&mut random).await?.context("a server that is well answers")?);
    }
    wait_until_up(&runs, ids.len(), &mut random).await?;

    // One in order, one without warning.
    let [one, two] = &mut world.nodes;
    let (stopped, killed) = tokio::join!(one.server.stop(), two.server.kill());
    stopped.and(killed)?;
    let began = Instant::now();
    tokio::time::sleep(away).await;
    let (first, second) = tokio::join!(one.server.restart(), two.server.restart());
    first.and(second)?;
    println!("away: back after {:.0?}", began.elapsed());

    let rows = runs.settle(&world.data(), &mut random).await?;
    checker::runs(&rows, &ids, &[]).with_context(|| last_words(&world.data()))?;
    ensure!(rows.len() == ids.len(), "{} sandboxes were asked for, there are {}", ids.len(), rows.len());
    for id in &ids {
        let log = door.api(0).whole_log(id).await?;
        checker::begun(id, &log)?;
    }
    println!("away: {} sandboxes completed at their first attempt", rows.len());
    Ok(())
}

/// Waits until all work at the same time.
async fn wait_until_up(runs: &Runs, count: usize, random: &mut StdRng) -> anyhow::Result<()> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        if runs.rows("running", random).await?.len() == count {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("{count} sandboxes did not come up within 60 s: {:?}", runs.rows("", random).await?)
}
