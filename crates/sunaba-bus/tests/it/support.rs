//! Nodes, subscribers and events for the tests.

use std::sync::Arc;

use futures::StreamExt as _;
use redis::aio::{PubSubSink, PubSubStream};
use serde_json::{Value, json};
use sunaba_bus::{Config, Handle, RedisUrl, Service};
use sunaba_store::{Append, FeedEntry, Store, Writer};
use sunaba_store_postgres::PostgresStore;
use sunaba_store_sqlite::SqliteStore;
use sunaba_testkit::{Redis, eventually, within};
use sunaba_types::{EventPayload, NewEvent, SandboxId, Source, SystemClock, new_event_id};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) fn config(redis: &Redis) -> Config {
    Config::new(RedisUrl::parse(&redis.url()).unwrap())
}

/// A store with a bus beside it.
pub(crate) struct Node {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) handle: Handle,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

impl Node {
    pub(crate) fn start(redis: &Redis, store: Arc<dyn Store>) -> Self {
        let (service, handle) = Service::new(config(redis), Arc::clone(&store));
        let stop = CancellationToken::new();
        let task = tokio::spawn(service.run(stop.clone()));
        Self { store, handle, stop, task }
    }

    /// A node that publishes.
    pub(crate) async fn leading(redis: &Redis, store: Arc<dyn Store>) -> Self {
        let node = Self::start(redis, store);
        eventually("the node publishes", async || node.handle.status().leads).await;
        node
    }

    pub(crate) async fn published_all(&self) {
        eventually("all is published", async || {
            self.handle.status().published == Some(self.store.feed_head().await.unwrap())
        })
        .await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) async fn sqlite(dir: &tempfile::TempDir) -> Arc<dyn Store> {
    let options = sunaba_store_sqlite::Options::new(dir.path().join("sunaba.db"), Arc::new(SystemClock));
    SqliteStore::open(options).await.unwrap()
}

pub(crate) async fn postgres(url: &str) -> Arc<dyn Store> {
    PostgresStore::open(sunaba_store_postgres::Options::new(url, Arc::new(SystemClock))).await.unwrap()
}

pub(crate) async fn post(store: &dyn Store, id: &SandboxId, event_type: &str, payload: Value) {
    append(store, id, vec![event(event_type, &payload)]).await;
}

/// Several events in one commit.
pub(crate) async fn post_batch(store: &dyn Store, id: &SandboxId, payload: &Value, count: usize) {
    append(store, id, (0..count).map(|_| event("agent.message", payload)).collect()).await;
}

fn event(event_type: &str, payload: &Value) -> NewEvent {
    NewEvent {
        event_id: new_event_id(),
        event_type: event_type.to_owned(),
        source: Source::Agent,
        payload: EventPayload::from_value(payload).unwrap(),
        step: None,
    }
}

async fn append(store: &dyn Store, id: &SandboxId, events: Vec<NewEvent>) {
    let append = Append { sandbox_id: id.clone(), writer: Writer::Registrar, events };
    within("an append", store.append(append)).await.unwrap();
}

pub(crate) async fn post_many(store: &dyn Store, id: &SandboxId, count: usize) {
    for n in 0..count {
        post(store, id, "agent.message", json!({"n": n})).await;
    }
}

/// All of the feed after a position.
pub(crate) async fn feed(store: &dyn Store, after: i64) -> Vec<Arc<FeedEntry>> {
    let mut all: Vec<Arc<FeedEntry>> = Vec::new();
    loop {
        let page = store.feed_after(all.last().map_or(after, |entry| entry.position), 1000).await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

/// A program outside that listens to everything.
pub(crate) struct Subscriber {
    _asks: PubSubSink,
    messages: PubSubStream,
}

impl Subscriber {
    pub(crate) async fn open(redis: &Redis) -> Self {
        let client = redis::Client::open(redis.url()).unwrap();
        let mut pubsub = client.get_async_pubsub().await.unwrap();
        pubsub.psubscribe("events.*").await.unwrap();
        let (asks, messages) = pubsub.split();
        Self { _asks: asks, messages }
    }

    /// Channel and text of the next frame.
    pub(crate) async fn next(&mut self) -> (String, String) {
        let message = within("a frame on Redis", self.messages.next()).await.expect("Redis is there");
        (message.get_channel_name().to_owned(), message.get_payload().unwrap())
    }

    /// The positions of the frames up to this one.
    pub(crate) async fn positions_up_to(&mut self, last: i64) -> Vec<i64> {
        let mut positions = Vec::new();
        while positions.last().is_none_or(|position| *position < last) {
            let frame: Value = serde_json::from_str(&self.next().await.1).unwrap();
            positions.push(frame["position"].as_i64().unwrap());
        }
        positions
    }
}
