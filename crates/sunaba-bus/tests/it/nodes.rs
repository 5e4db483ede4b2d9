//! Two nodes on one database and one Redis.

use redis::AsyncCommands as _;
use sunaba_testkit::{Postgres, Redis, eventually, within};
use sunaba_types::SandboxId;

use crate::support::{Node, Subscriber, feed, post_many, postgres, sqlite};

async fn pair(redis: &Redis) -> [Node; 2] {
    let url = Postgres::shared().database();
    let one = Node::leading(redis, postgres(&url).await).await;
    let two = Node::start(redis, postgres(&url).await);
    eventually("the second is there", async || two.handle.status().connected).await;
    [one, two]
}

async fn load(nodes: [&Node; 2], count: usize) {
    let ids = [SandboxId::generate(), SandboxId::generate()];
    tokio::join!(post_many(&*nodes[0].store, &ids[0], count), post_many(&*nodes[1].store, &ids[1], count));
}

/// However the one that publishes ends, every position goes out once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_position_is_published_once() {
    let redis = Redis::start();
    let [one, two] = pair(&redis).await;
    let mut outside = Subscriber::open(&redis).await;
    let before = one.store.feed_head().await.unwrap();
    load([&one, &two], 100).await;
    // Killed: nothing is given up in order.
    let killing = async {
        one.handle.hints().changed().await.unwrap();
        one.task.abort();
    };
    tokio::join!(load([&one, &two], 100), killing);
    eventually("the other takes over", async || two.handle.status().leads).await;
    load([&one, &two], 50).await;
    // Stopped in order, while a third one waits.
    let third = Node::start(&redis, std::sync::Arc::clone(&one.store));
    eventually("the third is there", async || third.handle.status().connected).await;
    two.stop.cancel();
    load([&one, &two], 50).await;
    third.published_all().await;
    let wanted: Vec<i64> = feed(&*one.store, before).await.iter().map(|entry| entry.position).collect();
    assert!(wanted.len() >= 600, "{}", wanted.len());
    let seen = outside.positions_up_to(*wanted.last().unwrap()).await;
    assert_eq!(seen, wanted);
}

/// Both nodes know up to where it was published, whoever does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_and_the_other_knows_how_far_it_is() {
    let redis = Redis::start();
    let [one, two] = pair(&redis).await;
    load([&one, &two], 20).await;
    one.published_all().await;
    two.published_all().await;
    assert!(one.handle.status().leads && !two.handle.status().leads);
    assert_eq!(two.handle.status().behind, 0);
}

/// A position told on Redis wakes the readers of the store's hints, also without a word of PostgreSQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_on_redis_wakes_readers_of_the_feed() {
    let redis = Redis::start();
    let [one, two] = pair(&redis).await;
    let mut told = two.handle.hints();
    post_many(&*one.store, &SandboxId::generate(), 1).await;
    let head = one.store.feed_head().await.unwrap();
    within("a hint over Redis", told.wait_for(|position| *position == head)).await.unwrap();

    let mut reader = two.store.hints();
    within("a hint of PostgreSQL", reader.wait_for(|position| *position == head)).await.unwrap();
    let installation = one.store.find_setting("installation_id").await.unwrap().unwrap();
    let client = redis::Client::open(redis.url()).unwrap();
    let mut commands = client.get_multiplexed_async_connection().await.unwrap();
    let channel = format!("sunaba:{installation}:hint");
    let _: () = commands.publish(&channel, "no number").await.unwrap();
    let _: () = commands.publish(&channel, head).await.unwrap();
    let _: () = commands.publish(&channel, i64::MAX).await.unwrap();
    within("the reader is woken", reader.changed()).await.unwrap();
    assert_eq!(*reader.borrow(), head, "what is told is not believed");
    // One that told nonsense does not silence the others.
    post_many(&*one.store, &SandboxId::generate(), 1).await;
    let head = one.store.feed_head().await.unwrap();
    within("a hint over Redis", told.wait_for(|position| *position == head)).await.unwrap();
}

/// A cluster refuses a script whose keys are not in one place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_published_on() {
    let (redis, dir) = (Redis::start_cluster(), tempfile::tempdir().unwrap());
    let node = Node::leading(&redis, sqlite(&dir).await).await;
    let mut outside = Subscriber::open(&redis).await;
    post_many(&*node.store, &SandboxId::generate(), 3).await;
    let head = node.store.feed_head().await.unwrap();
    assert_eq!(outside.positions_up_to(head).await.last(), Some(&head));
    node.stop.cancel();
    let next = Node::leading(&redis, std::sync::Arc::clone(&node.store)).await;
    assert_eq!(next.handle.status().published, Some(head));
}
