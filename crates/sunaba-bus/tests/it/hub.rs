//! Two servers on one database: a subscriber of the second sees what is posted at the first. By each way of being told
//! alone, by nothing but looking, and while Redis stalls or is gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sunaba_store_postgres::{Options, PostgresStore};
use sunaba_testkit::{Postgres, Redis, Setup, TestApp, Work, WsReader, eventually};
use sunaba_types::SystemClock;
use tokio::time::interval;

use crate::support::Node;

/// Events of one measurement.
const COUNT: usize = 60;
/// Between two of them: they fall anywhere between two looks at the feed.
const PACE: Duration = Duration::from_millis(20);
/// No test lasts so long: a server that looks only so often is told or sees nothing.
const NEVER: Duration = Duration::from_secs(3600);

/// Who is told of a commit by PostgreSQL.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notify {
    /// Every server that listens.
    Others,
    /// Nobody: the one that writes believes that it is alone.
    Nobody,
}

/// What is posted at the first server and seen at the second.
struct Pair {
    one: TestApp,
    two: TestApp,
    work: Work,
    feed: WsReader,
    posted: usize,
    last_position: i64,
}

async fn server(url: &str, notify: Notify, poll_every: Option<Duration>) -> TestApp {
    let mut options = Options::new(url, Arc::new(SystemClock));
    if notify == Notify::Nobody {
        options.alone_after = Duration::ZERO;
    }
    let store = PostgresStore::open(options).await.unwrap();
    let setup = Setup::default().without_vault().store(store);
    setup.config(|config| config.live.poll_every = poll_every.unwrap_or(config.live.poll_every)).start().await
}

impl Pair {
    /// Two servers that look at the feed as often as servers do, or so often.
    async fn start(notify: Notify, poll_every: Option<Duration>) -> Self {
        let url = Postgres::shared().database();
        let (one, two) = (server(&url, notify, poll_every).await, server(&url, notify, poll_every).await);
        let work = one.work("p").await;
        // What it changes is told in any case; the events that are measured change nothing.
        work.say("agent.started", json!({})).await;
        let head = two.state.hub.head().unwrap();
        let feed = two.watch(&two.admin, &format!("event_types=SANDBOX_agent.message&after={head}")).await;
        Self { one, two, work, feed, posted: 0, last_position: head }
    }

    /// Both servers use this Redis.
    async fn connect(&self, redis: &Redis) -> [Node; 2] {
        let nodes = [&self.one, &self.two].map(|app| Node::start(redis, Arc::clone(&app.store)));
        connected(&nodes, true).await;
        nodes
    }

    /// Posts at a steady pace; how long after its acknowledgement the subscriber had each, the shortest first. Every
    /// event comes, once and in its order.
    async fn delays(&mut self) -> Delays {
        let Self { work, feed, posted, last_position, .. } = self;
        let numbers = *posted..*posted + COUNT;
        let posting = async {
            let (mut pace, mut acknowledged) = (interval(PACE), Vec::new());
            for n in numbers.clone() {
                pace.tick().await;
                work.say("agent.message", json!({ "n": n })).await;
                acknowledged.push(Instant::now());
            }
            acknowledged
        };
        let reading = async {
            let mut seen = Vec::new();
            for n in numbers.clone() {
                let frame = feed.next_event().await.expect("the feed goes on");
                seen.push(Instant::now());
                assert_eq!(frame["payload"]["n"], n, "missing, doubled or out of order: {frame}");
                let position = frame["position"].as_i64().unwrap();
                assert!(position > *last_position, "{frame}");
                *last_position = position;
            }
            seen
        };
        let (acknowledged, seen) = tokio::join!(posting, reading);
        *posted = numbers.end;
        let pairs = seen.into_iter().zip(acknowledged);
        let mut delays: Vec<Duration> =
            pairs.map(|(seen, from)| seen.saturating_duration_since(from)).collect();
        delays.sort();
        Delays(delays)
    }
}

#[derive(Debug)]
struct Delays(Vec<Duration>);

impl Delays {
    fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }

    /// Somebody told of each event.
    #[track_caller]
    fn assert_told(&self) {
        assert!(self.median() < Duration::from_millis(100), "{self:?}");
    }

    /// Nobody told, and the next look, 250 ms after the last, found it. A busy machine may take longer over one.
    #[track_caller]
    fn assert_found(&self) {
        assert!(self.median() > Duration::from_millis(20), "somebody told: {self:?}");
        assert!(self.median() < Duration::from_millis(300), "{self:?}");
        assert!(*self.0.last().unwrap() < Duration::from_secs(1), "{self:?}");
    }
}

async fn connected(nodes: &[Node; 2], wanted: bool) {
    let what = if wanted { "Redis is used" } else { "it is noticed that Redis is away" };
    eventually(what, async || nodes.iter().all(|node| node.handle.status().connected == wanted)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_tells_is_found_within_a_moment() {
    let mut pair = Pair::start(Notify::Nobody, None).await;
    pair.delays().await.assert_found();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_alone_tells_of_every_event() {
    let mut pair = Pair::start(Notify::Others, Some(NEVER)).await;
    pair.delays().await.assert_told();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_alone_tells_of_every_event() {
    let (redis, mut pair) = (Redis::start(), Pair::start(Notify::Nobody, Some(NEVER)).await);
    let _nodes = pair.connect(&redis).await;
    pair.delays().await.assert_told();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_stalls_costs_a_moment_and_no_event() {
    let (redis, mut pair) = (Redis::start(), Pair::start(Notify::Nobody, None).await);
    let nodes = pair.connect(&redis).await;
    pair.delays().await.assert_told();
    redis.pause();
    pair.delays().await.assert_found();
    connected(&nodes, false).await;
    pair.delays().await.assert_found();
    redis.resume();
    connected(&nodes, true).await;
    pair.delays().await.assert_told();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_killed_costs_a_moment_and_no_event() {
    let (redis, mut pair) = (Redis::start(), Pair::start(Notify::Nobody, None).await);
    let nodes = pair.connect(&redis).await;
    pair.delays().await.assert_told();
    redis.kill();
    pair.delays().await.assert_found();
    connected(&nodes, false).await;
    redis.revive();
    connected(&nodes, true).await;
    pair.delays().await.assert_told();
}
