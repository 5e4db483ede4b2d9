//! Everybody who works with the servers during the storm, and what they know when it is over.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::door::Door;
use super::inbox::{self, Inbox, Sent};
use super::runs::{Asked, Runs};
use super::stream::{Followed, Follower};
use super::watcher::{Filter, Leaves, Seen, Watcher, published};
use super::writer::{TYPE, Told, Writer};
use super::{checker, reading};

const WRITERS: usize = 6;
const INBOXES: usize = 2;
/// Real sandboxes at a time.
const RUNS: usize = 3;
/// Whose log is followed over SSE: that of a writer of batches.
const FOLLOWED: &str = "writer-1";

/// A run that takes a few seconds and needs its server for every turn.
const SCRIPT: &str = r#"
- text: "I count."
  tools:
    - shell: "for i in 1 2 3 4 5 6; do echo tick $i; sleep 0.2; done"
- tools:
    - write: { path: a.txt, content: "counted\n" }
- text: "Done."
"#;

/// All of them.
pub(super) struct Clients {
    writers: JoinSet<anyhow::Result<(String, Told)>>,
    watchers: JoinSet<anyhow::Result<(Filter, Seen)>>,
    followers: JoinSet<anyhow::Result<Followed>>,
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
    pub(super) async fn start(door: &Door, nodes: &[&Path], seed: u64) -> anyhow::Result<Self> {
        let (runs, repo) = Runs::prepare(door, SCRIPT).await?;
        let mut clients = Self {
            writers: JoinSet::new(),
            watchers: JoinSet::new(),
            followers: JoinSet::new(),
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
        let nodes = nodes.iter().map(|data| data.to_path_buf()).collect();
        let keeping_up = clients.runs.clone().keep_up(RUNS, nodes, seed ^ 400, clients.stop.clone());
        clients.keeping_up.spawn(keeping_up);
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
        let sandbox = FOLLOWED.to_owned();
        let follower = Follower { door: door.clone(), sandbox, seed: seed ^ 150, stays_for: 300 };
        self.followers.spawn(follower.follow());
    }

    /// A client that gave up says so at once, not after hours.
    pub(super) fn still_work(&mut self) -> anyhow::Result<()> {
        let ended = ended(&mut self.writers)
            .or_else(|| ended(&mut self.watchers))
            .or_else(|| ended(&mut self.followers))
            .or_else(|| ended(&mut self.senders))
            .or_else(|| ended(&mut self.keeping_up))
            .or_else(|| ended(&mut self.workers));
        match ended {
            None => Ok(()),
            Some(ended) => ended.and_then(|()| anyhow::bail!("a client ended by itself")),
        }
    }

    /// Lets everybody finish, reads what the servers show, and compares.
    pub(super) async fn finish_and_check(
        mut self,
        door: &Door,
        nodes: &[&Path],
        random: &mut StdRng,
    ) -> anyhow::Result<String> {
        self.stop.cancel();
        let told: BTreeMap<String, Told> = all(&mut self.writers).await?.into_iter().collect();
        let sent: Vec<Sent> = all(&mut self.senders).await?.into_iter().flatten().collect();
        let mut asked: Asked = all(&mut self.keeping_up).await?.pop().unwrap_or_default();
        self.drain_inboxes(door, &sent, random).await?;
        self.runs.settle(nodes, random).await?;
        asked.sandboxes.extend(self.runs.once_more(nodes, random).await?);
        let rows = self.runs.settle(nodes, random).await?;
        check_inboxes(door, &self.inboxes, &sent).await?;
        check_runs(door, &rows, &asked).await?;

        reading::end_log(door, FOLLOWED).await?;
        reading::mark_the_end(door).await?;
        let logs = reading::logs(door, told.keys()).await?;
        for (sandbox, told) in &told {
            checker::log(&logs[sandbox], &told.written).with_context(|| sandbox.clone())?;
            checker::heard(&door.api(0).get(&format!("/api/v1/sandboxes/{sandbox}")).await?)?;
        }
        let reconnects = self.check_watchers(door, &logs).await?;

        let events: usize = told.values().map(|told| told.written.len()).sum();
        let repeats: u64 = told.values().map(|told| told.repeats).sum();
        let overtaken: u64 = self.inboxes.iter().map(Inbox::overtaken).sum();
        ensure!(events > 0 && !sent.is_empty() && !rows.is_empty(), "nothing was done");
        Ok(format!(
            "{events} events acknowledged ({repeats} repeated requests), {reconnects} reconnects, {} messages \
             ({overtaken} times an interrupt before others), {} sandboxes at the servers {:?}",
            sent.len() + asked.messages.len(),
            rows.len(),
            shares(&rows)
        ))
    }

    /// Everybody who watched has seen what there is now; gives how often they came back.
    async fn check_watchers(
        &mut self,
        door: &Door,
        logs: &BTreeMap<String, Vec<Value>>,
    ) -> anyhow::Result<u64> {
        let feed = reading::feed(door, 0).await?;
        checker::feed(&feed, &reading::feed(door, 1).await?, logs)?;
        let watched = tokio::time::timeout(reading::CATCH_UP, all(&mut self.watchers));
        let watched = watched.await.context("a subscriber did not come to the end")??;
        for (filter, seen) in &watched {
            checker::subscriber(filter, &seen.frames, &feed)?;
        }
        let followed = tokio::time::timeout(reading::CATCH_UP, all(&mut self.followers));
        let followed = followed.await.context("a stream did not come to the end")??;
        for one in &followed {
            checker::stream(&one.lines, &logs[&one.sandbox]).with_context(|| one.sandbox.clone())?;
        }
        let of_watchers: u64 = watched.iter().map(|(_, seen)| seen.reconnects).sum();
        Ok(of_watchers + followed.iter().map(|one| one.reconnects).sum::<u64>())
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

async fn check_inboxes(door: &Door, inboxes: &[Inbox], sent: &[Sent]) -> anyhow::Result<()> {
    for (index, inbox) in inboxes.iter().enumerate() {
        let to_it: Vec<&Sent> = sent.iter().filter(|sent| sent.sandbox == inbox.sandbox).collect();
        let history = reading::history(door, index % 2, &inbox.sandbox).await?;
        checker::inbox(&to_it, &inbox.taken(), &history)?;
        checker::heard(&door.api(index % 2).get(&format!("/api/v1/sandboxes/{}", inbox.sandbox)).await?)?;
    }
    Ok(())
}

async fn check_runs(door: &Door, rows: &[Value], asked: &Asked) -> anyhow::Result<()> {
    checker::runs(rows, &asked.sandboxes, &asked.said)?;
    let ids: Vec<String> = rows.iter().filter_map(|row| row["id"].as_str().map(str::to_owned)).collect();
    let mut histories = Vec::new();
    for (sandbox, log) in reading::logs(door, ids.iter()).await? {
        checker::begun(&sandbox, &log)?;
        histories.extend(reading::history(door, 0, &sandbox).await?);
    }
    checker::to_runs(&asked.messages, &histories)
}

/// How many sandboxes each server had: all at one would leave the line between them unused.
fn shares(rows: &[Value]) -> Vec<usize> {
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *shares.entry(row["node_id"].as_str().unwrap_or_default()).or_default() += 1;
    }
    shares.into_values().collect()
}

/// Whether anybody is done, and how.
fn ended<T: 'static>(set: &mut JoinSet<anyhow::Result<T>>) -> Option<anyhow::Result<()>> {
    let ended = set.try_join_next()?;
    Some(ended.map_err(Into::into).flatten().map(drop))
}

/// Waits for everybody; the first error ends it.
async fn all<T: 'static>(set: &mut JoinSet<anyhow::Result<T>>) -> anyhow::Result<Vec<T>> {
    let mut done = Vec::new();
    while let Some(one) = set.join_next().await {
        done.push(one??);
    }
    Ok(done)
}
