//! The scripts on a real Redis, and what is sent.

use futures::StreamExt as _;
use serde_json::json;
use sunaba_store::PublishedPayload;
use sunaba_testkit::{Redis, within};
use sunaba_types::{EventPayload, Timestamp};

use super::*;
use crate::{Config, RedisUrl};

struct Bench {
    redis: Redis,
    connector: Connector,
    names: Names,
}

impl Bench {
    fn new() -> Self {
        let redis = Redis::start();
        let config = Config::new(RedisUrl::parse(&redis.url()).unwrap());
        Self { connector: Connector::new(&config).unwrap(), names: Names::of("test"), redis }
    }

    async fn wire(&self) -> Wire<'_> {
        let connection = self.connector.commands().await.unwrap();
        Wire { connector: &self.connector, names: &self.names, connection }
    }
}

fn batch(positions: impl IntoIterator<Item = i64>) -> Vec<Message> {
    let message =
        |position: i64| Message { position, channel: "events.X".to_owned(), frame: position.to_string() };
    positions.into_iter().map(message).collect()
}

fn turn(leads: bool, published: impl Into<Option<i64>>) -> Turn {
    Turn { leads, published: published.into() }
}

#[tokio::test]
async fn what_is_sent_again_is_not_published_again() {
    let bench = Bench::new();
    let mut heard = bench.connector.listen("events.X").await.unwrap().into_on_message();
    let mut wire = bench.wire().await;
    assert_eq!(wire.turn("a", &[]).await.unwrap(), turn(true, None));
    assert_eq!(wire.turn("a", &batch([3, 5])).await.unwrap(), turn(true, 5));
    assert_eq!(wire.turn("a", &batch([3, 5])).await.unwrap(), turn(true, 5));
    assert_eq!(wire.turn("a", &batch([4, 5, 6])).await.unwrap(), turn(true, 6));
    assert_eq!(wire.turn("a", &batch([8])).await.unwrap(), turn(true, 8));
    for expected in [3, 5, 6, 8] {
        let message = within("a frame", heard.next()).await.unwrap();
        assert_eq!(message.get_payload::<i64>().unwrap(), expected);
    }
}

#[tokio::test]
async fn only_one_leads_until_it_leaves_or_its_lease_is_over() {
    let bench = Bench::new();
    let mut heard = bench.connector.listen("events.X").await.unwrap().into_on_message();
    let mut wire = bench.wire().await;
    assert_eq!(wire.turn("a", &batch([1])).await.unwrap(), turn(true, 1));
    assert_eq!(wire.turn("b", &batch([2])).await.unwrap(), turn(false, 1));
    wire.leave("b").await.unwrap();
    assert_eq!(wire.turn("b", &[]).await.unwrap(), turn(false, 1), "another's lease cannot be given up");
    wire.leave("a").await.unwrap();
    assert_eq!(wire.turn("b", &batch([3])).await.unwrap(), turn(true, 3));
    within("the lease of b ends", async { while !wire.turn("c", &[]).await.unwrap().leads {} }).await;
    assert_eq!(wire.turn("b", &batch([4])).await.unwrap(), turn(false, 3));
    assert_eq!(wire.turn("c", &batch([5])).await.unwrap(), turn(true, 5));
    for expected in [1, 3, 5] {
        let message = within("a frame", heard.next()).await.unwrap();
        assert_eq!(message.get_payload::<i64>().unwrap(), expected);
    }
    bench.redis.kill();
    assert!(matches!(wire.turn("c", &[]).await, Err(Error::Unreachable { .. })));
}

#[tokio::test]
async fn a_position_is_taken_back_only_while_it_is_the_one_that_was_seen() {
    let bench = Bench::new();
    let mut wire = bench.wire().await;
    wire.turn("a", &batch([9])).await.unwrap();
    wire.lower(8, 2).await.unwrap();
    assert_eq!(wire.turn("a", &[]).await.unwrap(), turn(true, 9));
    wire.lower(9, 2).await.unwrap();
    assert_eq!(wire.turn("a", &[]).await.unwrap(), turn(true, 2));
}

#[test]
fn the_payload_is_left_out_above_64_kib() {
    let entry = |content: usize| FeedEntry {
        position: 7,
        project_id: None,
        event_type: "TASK_CREATED".to_owned(),
        entity_type: "task".into(),
        entity_id: "t1".to_owned(),
        sandbox_id: None,
        id: "feed-7".to_owned(),
        seq: None,
        payload: PublishedPayload::Notice(
            EventPayload::from_value(&json!({"content": "x".repeat(content)})).unwrap(),
        ),
        created_at: Timestamp::UNIX_EPOCH,
    };
    let room = FRAME_MAX - entry(0).frame().len();
    let (fits, large) = (entry(room), entry(room + 1));
    assert_eq!(fits.frame().len(), FRAME_MAX);
    assert_eq!(Message::of(&fits).frame, fits.frame());
    assert_eq!(Message::of(&large).frame, large.frame_without_payload());
    assert_eq!(Message::of(&large).channel, "events.TASK_CREATED");
    let fits = Arc::new(fits);
    let page: Vec<Arc<FeedEntry>> = (0..40).map(|_| Arc::clone(&fits)).collect();
    let sizes: Vec<usize> = batches(page).map(|batch| batch.len()).collect();
    assert_eq!(sizes, [16, 16, 8]);
}
