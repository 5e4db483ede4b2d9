//! The storm: clients work, everything dies, and afterwards the checker compares.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::door::Door;
use super::faults::{Deck, Fault};
use super::inbox::{self, Inbox, Sent};
use super::runs::{Asked, Runs, last_words};
use super::watcher::{Filter, Leaves, Seen, Watcher, published};
use super::world::World;
use super::writer::{TYPE, Told, Writer};
use super::{checker, number, reading, seed};

const WRITERS: usize = 6;
const INBOXES: usize = 2;
/// Real sandboxes at a time.
const RUNS: usize = 3;

/// A run that takes a few seconds and needs its server for every turn.
const SCRIPT: &str = r#"
- text: "I count."
  tools:
    - shell: "for i in 1 2 3 4 5 6; do echo tick $i; sleep 0.2; done"
- tools:
    - write: { path: a.txt, content: "counted\n" }
- text: "Done."
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kills_stops_cuts_and_clock_jumps_of_two_nodes_break_no_promise() -> anyhow::Result<()> {
    let (seed, kills) = (seed(), number("SUNABA_CLUSTER_KILLS").unwrap_or(12));
    let time = Duration::from_secs(number("SUNABA_CLUSTER_SECONDS").unwrap_or(20));
    println!("cluster: SUNABA_SEED={seed}, at most {kills} kills in {time:?}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::start().await?;
    let door = world.door()?;
    let mut clients = Clients::start(&door, seed).await?;

    let began = Instant::now();
    let mut struck = Struck::default();
    while struck.kills < kills && began.elapsed() < time {
        tokio::time::sleep(Duration::from_millis(random.random_range(50..400))).await;
        let went = struck.next(&mut world, &mut random).await.and_then(|()| clients.still_work());
        went.with_context(|| format!("SUNABA_SEED={seed} {struck:?}{}", last_words(&world.data())))?;
    }
    let took = began.elapsed();
    let worth = clients.finish_and_check(&door, &world.data(), &mut random).await;
    let worth =
        worth.with_context(|| format!("SUNABA_SEED={seed} {struck:?}{}", last_words(&world.data())))?;
    let (kills, faults) = (struck.kills, struck.faults);
    println!(
        "cluster: {kills} kills in {took:.0?}, {faults:?}, SUNABA_SEED={seed}; {worth}: no promise broken"
    );
    ensure!(kills > 0, "nothing was killed");
    Ok(())
}

/// What has gone wrong so far.
#[derive(Default)]
struct Struck {
    deck: Deck,
    faults: BTreeMap<Fault, u64>,
    kills: u64,
}

impl std::fmt::Debug for Struck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "after {} kills, {:?}", self.kills, self.faults)
    }
}

impl Struck {
    async fn next(&mut self, world: &mut World, random: &mut StdRng) -> anyhow::Result<()> {
        let fault = self.deck.next(random);
        *self.faults.entry(fault).or_default() += 1;
        self.kills += fault.kills();
        fault.strike(world, random).await.with_context(|| format!("{fault:?}"))
    }
}

/// Everybody who works with the servers.
struct Clients {
    writers: JoinSet<anyhow::Result<(String, Told)>>,
    watchers: JoinSet<anyhow::Result<(Filter, Seen)>>,
    senders: JoinSet<anyhow::Result<Vec<Sent>>>,
    workers: JoinSet<anyhow::Result<()>>,
    keeping_up: JoinSet<anyhow::Result<Asked>>,
    inboxes: Vec<Inbox>,
    runs: Runs,
    _repo: tempfile::TempDir,
    stop: CancellationToken,
    stop_workers: CancellationToken,
}

impl Clients {
    async fn start(door: &Door, seed: u64) -> anyhow::Result<Self> {
        let (runs, repo) = Runs::prepare(door, SCRIPT).await?;
        let mut clients = Self {
            writers: JoinSet::new(),
            watchers: JoinSet::new(),
            senders: JoinSet::new(),
            workers: JoinSet::new(),
            keeping_up: JoinSet::new(),
            inboxes: Vec::new(),
            runs,
            _repo: repo,
            stop: CancellationToken::new(),
            stop_workers: CancellationToken::new(),
        };
        clients.start_writers(door, seed);
        clients.start_watchers(door, seed);
        for index in 0..INBOXES as u64 {
            let inbox = Inbox::open(door, format!("inbox-{index}")).await?;
            let working =
                inbox.clone().work(door.clone(), seed ^ (200 + index), clients.stop_workers.clone());
            clients.workers.spawn(working);
            clients.inboxes.push(inbox);
        }
        let names = clients.inboxes.iter().map(|inbox| inbox.sandbox.clone()).collect();
        clients.senders.spawn(inbox::send(door.clone(), names, seed ^ 300, clients.stop.clone()));
        clients.keeping_up.spawn(clients.runs.clone().keep_up(RUNS, seed ^ 400, clients.stop.clone()));
        Ok(clients)
    }

    fn start_writers(&mut self, door: &Door, seed: u64) {
        for index in 0..WRITERS {
            let writer = Writer {
                door: door.clone(),
                sandbox: format!("writer-{index}"),
                batch: if index % 2 == 0 { 1 } else { 10 },
                seed: seed ^ index as u64,
                pause_ms: 40,
            };
            self.writers.spawn(writer.write(self.stop.clone()));
        }
    }

    fn start_watchers(&mut self, door: &Door, seed: u64) {
        let filters = [
            Filter::Everything,
            Filter::Entities(vec!["writer-0".to_owned(), "inbox-1".to_owned()]),
            Filter::Types(vec![published(TYPE)]),
        ];
        for (index, filter) in filters.into_iter().enumerate() {
            let seed = seed ^ (100 + index as u64);
            let watcher = Watcher { door: door.clone(), filter, seed, leaves: Leaves::Never, only: None };
            self.watchers.spawn(watcher.watch(CancellationToken::new()));
        }
    }

    /// A client that gave up says so at once, not after hours.
    fn still_work(&mut self) -> anyhow::Result<()> {
        let ended = self.writers.try_join_next().map(|ended| ended.map(|ended| ended.map(drop)));
        let ended = ended.or_else(|| self.watchers.try_join_next().map(|ended| ended.map(|it| it.map(drop))));
        let ended = ended.or_else(|| self.senders.try_join_next().map(|ended| ended.map(|it| it.map(drop))));
        let ended =
            ended.or_else(|| self.keeping_up.try_join_next().map(|ended| ended.map(|it| it.map(drop))));
        match ended.or_else(|| self.workers.try_join_next()) {
            None => Ok(()),
            Some(ended) => ended?.and_then(|()| anyhow::bail!("a client ended by itself")),
        }
    }

    /// Lets everybody finish, reads what the servers show, and compares.
    async fn finish_and_check(
        mut self,
        door: &Door,
        nodes: &[&Path],
        random: &mut StdRng,
    ) -> anyhow::Result<String> {
        self.stop.cancel();
        let told: BTreeMap<String, Told> = all(&mut self.writers).await?.into_iter().collect();
        let sent: Vec<Sent> = all(&mut self.senders).await?.into_iter().flatten().collect();
        let asked: Asked = all(&mut self.keeping_up).await?.pop().unwrap_or_default();
        self.drain_inboxes(door, &sent, random).await?;
        let rows = self.runs.settle(nodes, random).await?;
        checker::runs(&rows, &asked.sandboxes)?;
        check_messages(door, &self.inboxes, &sent, &asked.messages).await?;

        reading::mark_the_end(door).await?;
        let logs = reading::logs(door, told.keys()).await?;
        for (sandbox, told) in &told {
            checker::log(&logs[sandbox], &told.written).with_context(|| sandbox.clone())?;
            checker::heard(&door.api(0).get(&format!("/api/v1/sandboxes/{sandbox}")).await?)?;
        }
        for row in &rows {
            let id = row["id"].as_str().context("id")?.to_owned();
            reading::logs(door, std::iter::once(&id)).await?;
        }
        let feed = reading::feed(door, 0).await?;
        checker::feed(&feed, &reading::feed(door, 1).await?, &logs)?;
        let watched = tokio::time::timeout(reading::CATCH_UP, all(&mut self.watchers));
        let watched = watched.await.context("a subscriber did not come to the end")??;
        for (filter, seen) in &watched {
            checker::subscriber(filter, &seen.frames, &feed)?;
        }

        let events: usize = told.values().map(|told| told.written.len()).sum();
        let repeats: u64 = told.values().map(|told| told.repeats).sum();
        let reconnects: u64 = watched.iter().map(|(_, seen)| seen.reconnects).sum();
        ensure!(events > 0 && !sent.is_empty() && !rows.is_empty(), "nothing was done");
        Ok(format!(
            "{events} events acknowledged ({repeats} repeated requests), {} positions, {reconnects} reconnects, \
             {} messages, {} sandboxes",
            feed.len(),
            sent.len() + asked.messages.len(),
            rows.len()
        ))
    }

    /// Gives the workers time to take what was sent to them, and ends them.
    async fn drain_inboxes(&mut self, door: &Door, sent: &[Sent], random: &mut StdRng) -> anyhow::Result<()> {
        for inbox in &self.inboxes {
            inbox.begin_anew(door, random).await?;
        }
        let began = Instant::now();
        let waits = |inbox: &Inbox| {
            let taken = inbox.taken();
            sent.iter().any(|sent| sent.sandbox == inbox.sandbox && !taken.contains(&sent.id))
        };
        // What is still missing then, the checker names.
        while self.inboxes.iter().any(waits) && began.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.stop_workers.cancel();
        all(&mut self.workers).await?;
        Ok(())
    }
}

async fn check_messages(
    door: &Door,
    inboxes: &[Inbox],
    sent: &[Sent],
    to_runs: &[Sent],
) -> anyhow::Result<()> {
    for (index, inbox) in inboxes.iter().enumerate() {
        let to_it: Vec<&Sent> = sent.iter().filter(|sent| sent.sandbox == inbox.sandbox).collect();
        let history = reading::history(door, index % 2, &inbox.sandbox).await?;
        checker::inbox(&to_it, &inbox.taken(), &history)?;
        checker::heard(&door.api(index % 2).get(&format!("/api/v1/sandboxes/{}", inbox.sandbox)).await?)?;
    }
    for one in to_runs {
        let history = reading::history(door, 0, &one.sandbox).await?;
        checker::fates_of_ended(&[one], &history)?;
    }
    Ok(())
}

/// Waits for everybody; the first error ends it.
async fn all<T: 'static>(set: &mut JoinSet<anyhow::Result<T>>) -> anyhow::Result<Vec<T>> {
    let mut done = Vec::new();
    while let Some(one) = set.join_next().await {
        done.push(one??);
    }
    Ok(done)
}
