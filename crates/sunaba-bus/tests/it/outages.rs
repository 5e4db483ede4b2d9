//! A Redis that is killed, stalls or comes late.

use std::time::{Duration, Instant};

use serde_json::json;
use sunaba_testkit::{Postgres, Redis, eventually};
use sunaba_types::SandboxId;

use crate::support::{Node, Subscriber, feed, post_batch, post_many, postgres, sqlite};

/// Killed and revived under load: the feed has everything, publishing goes on by itself and nothing goes out twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_costs_no_event() {
    let (redis, url) = (Redis::start_durable(), Postgres::shared().database());
    let node = Node::leading(&redis, postgres(&url).await).await;
    let (id, before) = (SandboxId::generate(), node.store.feed_head().await.unwrap());
    let mut outside = Subscriber::open(&redis).await;
    post_many(&*node.store, &id, 50).await;
    let reached = node.store.feed_head().await.unwrap();
    let mut published = outside.positions_up_to(reached).await;
    redis.kill();
    post_many(&*node.store, &id, 50).await;
    eventually("it is noticed", async || !node.handle.status().connected).await;
    assert!(node.handle.status().behind >= 50, "{:?}", node.handle.status());

    redis.revive();
    let mut outside = Subscriber::open(&redis).await;
    post_many(&*node.store, &id, 50).await;
    node.published_all().await;
    let head = node.store.feed_head().await.unwrap();
    post_many(&*node.store, &SandboxId::generate(), 1).await;
    published.extend(outside.positions_up_to(head + 1).await);
    assert!(published.is_sorted_by(|one, next| one < next), "twice or out of order: {published:?}");
    let stored = feed(&*node.store, before).await;
    let messages = stored.iter().filter(|entry| entry.event_type == "SANDBOX_agent.message").count();
    assert_eq!(messages, 151);
}

/// What a stalled Redis is to be given waits in the feed and nowhere else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_redis_holds_nobody_up() {
    // It does not cut off the subscriber below, however much comes at once.
    let redis = Redis::start_with(&["--client-output-buffer-limit", "pubsub 0 0 0"]);
    let dir = tempfile::tempdir().unwrap();
    let node = Node::leading(&redis, sqlite(&dir).await).await;
    let mut outside = Subscriber::open(&redis).await;
    let before = node.store.feed_head().await.unwrap();
    let (id, runtime) = (SandboxId::generate(), tokio::runtime::Handle::current().metrics());
    let payload = json!({"content": "x".repeat(60_000)});
    post_batch(&*node.store, &id, &payload, 100).await;
    node.published_all().await;
    redis.pause();
    let (tasks, memory) = (runtime.num_alive_tasks(), resident_bytes());
    let mut slowest = Duration::ZERO;
    for _ in 0..120 {
        let began = Instant::now();
        post_batch(&*node.store, &id, &payload, 10).await;
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    eventually("it is noticed", async || !node.handle.status().connected).await;
    let grown = resident_bytes().saturating_sub(memory);
    assert!(grown < 32 * 1024 * 1024, "{grown} bytes more for 72 MB of events");
    eventually("what it tried is gone", async || runtime.num_alive_tasks() <= tasks + 2).await;
    assert!(node.handle.status().behind >= 1200);

    redis.resume();
    node.published_all().await;
    let wanted: Vec<i64> = feed(&*node.store, before).await.iter().map(|entry| entry.position).collect();
    assert_eq!(outside.positions_up_to(*wanted.last().unwrap()).await, wanted);
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A server starts without its Redis and uses it once it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_late_is_used() {
    let (redis, dir) = (Redis::start(), tempfile::tempdir().unwrap());
    redis.kill();
    let node = Node::start(&redis, sqlite(&dir).await);
    eventually("it is said", async || node.handle.status().last_error.is_some()).await;
    post_many(&*node.store, &SandboxId::generate(), 3).await;
    redis.revive();
    eventually("it is used", async || node.handle.status().leads).await;
    let mut outside = Subscriber::open(&redis).await;
    post_many(&*node.store, &SandboxId::generate(), 1).await;
    let head = node.store.feed_head().await.unwrap();
    assert_eq!(*outside.positions_up_to(head).await.last().unwrap(), head);
}
