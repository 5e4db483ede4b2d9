//! Promise 3 across nodes: subscribers that leave and come back to either server while both are written to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::stream::Follower;
use super::watcher::{Filter, Leaves, Watcher, published};
use super::world::World;
use super::writer::{TYPE, Told, Writer};
use super::{checker, number, reading, seed};

const WRITERS: usize = 4;
/// Whose log is followed over SSE.
const FOLLOWED: &str = "writer-1";
/// Longer than the soak's number takes.
const LIMIT: Duration = Duration::from_secs(1800);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn subscribers_that_reconnect_to_either_node_see_each_position_once() -> anyhow::Result<()> {
    let (seed, wanted) = (seed(), number("SUNABA_RECONNECTS").unwrap_or(300));
    println!("reconnects: SUNABA_SEED={seed}, {wanted} of them");
    let world = World::start().await?;
    let door = world.door()?;
    let stop = CancellationToken::new();
    let mut writers: JoinSet<anyhow::Result<(String, Told)>> = JoinSet::new();
    for index in 0..WRITERS {
        let batch = if index % 2 == 0 { 1 } else { 5 };
        let sandbox = format!("writer-{index}");
        let writer = Writer { door: door.clone(), sandbox, batch, seed: seed ^ index as u64, pause_ms: 30 };
        writers.spawn(writer.write(stop.clone()));
    }
    let still_wanted = Arc::new(AtomicU64::new(wanted));
    let mut watchers = JoinSet::new();
    for index in 0..6 {
        let filter = match index % 3 {
            0 => Filter::Everything,
            1 => Filter::Entities(vec!["writer-0".to_owned(), "writer-1".to_owned()]),
            _ => Filter::Types(vec![published(TYPE)]),
        };
        let leaves = Leaves::Often { after_at_most: 12, still_wanted: Arc::clone(&still_wanted) };
        let watcher = Watcher { door: door.clone(), filter, seed: seed ^ (100 + index), leaves, only: None };
        watchers.spawn(watcher.watch(CancellationToken::new()));
    }
    let sandbox = FOLLOWED.to_owned();
    let follower = Follower { door: door.clone(), sandbox, seed: seed ^ 150, stays_for: 12 };
    let following = tokio::spawn(follower.follow());
    let began = Instant::now();
    while still_wanted.load(Ordering::Relaxed) > 0 && began.elapsed() < LIMIT {
        ensure!(watchers.try_join_next().is_none(), "a subscriber ended by itself");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.cancel();
    let mut told = BTreeMap::new();
    while let Some(done) = writers.join_next().await {
        let (sandbox, one) = done??;
        told.insert(sandbox, one);
    }
    reading::end_log(&door, FOLLOWED).await?;
    reading::mark_the_end(&door).await?;

    let logs = reading::logs(&door, told.keys()).await?;
    for (sandbox, told) in &told {
        checker::log(&logs[sandbox], &told.written).with_context(|| sandbox.clone())?;
    }
    let feed = reading::feed(&door, 0).await?;
    checker::feed(&feed, &reading::feed(&door, 1).await?, &logs)?;
    let mut reconnects = 0;
    while let Some(done) = tokio::time::timeout(reading::CATCH_UP, watchers.join_next()).await? {
        let (filter, seen) = done??;
        checker::subscriber(&filter, &seen.frames, &feed).with_context(|| format!("SUNABA_SEED={seed}"))?;
        reconnects += seen.reconnects;
    }
    let followed = tokio::time::timeout(reading::CATCH_UP, following).await???;
    checker::stream(&followed.lines, &logs[FOLLOWED]).with_context(|| format!("SUNABA_SEED={seed}"))?;
    println!(
        "reconnects: {reconnects} of 6 subscribers and {} of a stream over {} positions in {:.0?}, SUNABA_SEED={seed}: each exactly once",
        followed.reconnects,
        feed.len(),
        began.elapsed()
    );
    ensure!(reconnects + 6 >= wanted, "only {reconnects} reconnects");
    Ok(())
}
