//! What is said or posted at one server reaches who waits at another one at once, with Redis and without.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::installation::{Installation, token_of};
use crate::support::{DEADLINE, Server, http};

const ROUNDS: usize = 20;

/// Two servers that start no sandbox.
fn pair(installation: &Installation) -> [Server; 2] {
    [installation.node(&["--roles", "api"]), installation.node(&["--roles", "api"])]
}

/// Half of what was waited for was there in no time.
#[track_caller]
fn assert_at_once(mut waits: Vec<Duration>) {
    waits.sort();
    assert!(waits[waits.len() / 2] < Duration::from_millis(100), "{waits:?}");
}

/// How long after its acknowledgement an event posted at the one is in a stream of the other.
async fn event_waits([one, two]: &[Server; 2]) -> Vec<Duration> {
    one.post_event("ext-1", "agent.started", json!({})).await;
    let url = format!("{}/api/v1/sandboxes/ext-1/events/stream?after_seq=1", two.url);
    let mut stream = http().get(url).bearer_auth(two.token()).send().await.unwrap();
    let mut waits = Vec::new();
    for round in 0..ROUNDS {
        let mark = format!("this is {round}.");
        let seen = async {
            let mut text = String::new();
            while !text.contains(&mark) {
                let piece = stream.chunk().await.unwrap().expect("the stream goes on");
                text.push_str(&String::from_utf8_lossy(&piece));
            }
            Instant::now()
        };
        let posted = async {
            one.post_event("ext-1", "agent.message", json!({ "content": mark })).await;
            Instant::now()
        };
        let both = async { tokio::join!(seen, posted) };
        let (seen, posted) = tokio::time::timeout(DEADLINE, both).await.expect("the event comes");
        waits.push(seen.saturating_duration_since(posted));
    }
    waits
}

/// How long after its acknowledgement a message sent at the one is in the hands of a worker that asks the other.
async fn message_waits([one, two]: &[Server; 2]) -> Vec<Duration> {
    one.post_event("ext-2", "agent.started", json!({})).await;
    let token = token_of(one, "ext-2").await;
    let (mut waits, mut ack) = (Vec::new(), String::new());
    for round in 0..ROUNDS {
        let url = format!("{}/api/v1/sandboxes/ext-2/messages?wait=30{ack}", two.url);
        let poll = tokio::spawn(http().get(url).bearer_auth(&token).send());
        // Nobody tells when a poll has come to stand at a server. One that comes late finds the message there.
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert!(!poll.is_finished(), "there is nothing to take yet");
        let body = json!({ "content": format!("m{round}") });
        one.post("/api/v1/sandboxes/ext-2/messages", &body).await;
        let sent = Instant::now();
        let answer = tokio::time::timeout(DEADLINE, poll).await.expect("the poll ends").unwrap().unwrap();
        let taken: Value = answer.json().await.unwrap();
        waits.push(sent.elapsed());
        assert_eq!(taken.as_array().unwrap().len(), 1, "{taken}");
        assert_eq!(taken[0]["content"], body["content"]);
        ack = format!("&ack={}", taken[0]["id"].as_str().unwrap());
    }
    waits
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_and_a_message_reach_the_other_node_at_once() {
    let installation = Installation::start();
    let servers = pair(&installation);
    assert_at_once(event_waits(&servers).await);
    assert_at_once(message_waits(&servers).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_and_a_message_reach_the_other_node_at_once_without_redis() {
    let installation = Installation::without_redis();
    let servers = pair(&installation);
    assert_at_once(event_waits(&servers).await);
    assert_at_once(message_waits(&servers).await);
}
