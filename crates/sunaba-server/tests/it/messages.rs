//! Messages reach the worker: soon, interrupts first, and their fate is known.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sunaba_testkit::{Setup, TestApp, Work, eventually};
use sunaba_types::{FakeClock, Timestamp};

async fn send(app: &TestApp, work: &Work, content: &str, kind: &str) -> String {
    let body = json!({"content": content, "message_type": kind});
    let answer = app.admin.post(&work.path("/messages"), body).await.expect(200);
    assert_eq!(
        (&answer["status"], &answer["sandbox_id"]),
        (&json!("queued"), &json!(work.sandbox.id.as_str()))
    );
    answer["message_id"].as_str().expect("an id").to_owned()
}

fn contents(messages: &Value) -> Vec<String> {
    let content = |message: &Value| message["content"].as_str().expect("content").to_owned();
    messages.as_array().expect("an array").iter().map(content).collect()
}

#[tokio::test]
async fn interrupts_come_first_and_acknowledged_ones_not_again() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    send(&app, &work, "one", "user_message").await;
    send(&app, &work, "two", "guidance").await;
    send(&app, &work, "stop", "interrupt").await;
    let taken = work.worker.get(&work.path("/messages?wait=0")).await.expect(200);
    assert_eq!(contents(&taken), ["stop", "one", "two"]);
    for field in ["id", "content", "message_type", "timestamp", "seq", "sender"] {
        assert!(!taken[0][field].is_null(), "{field}: {taken}");
    }
    let ids: Vec<&str> = taken.as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    let again = work.worker.get(&work.path(&format!("/messages?ack={}", ids.join(",")))).await.expect(200);
    assert_eq!(contents(&again), Vec::<String>::new());
    let history = app.admin.get(&work.path("/messages/history")).await.expect(200);
    for message in history["messages"].as_array().unwrap() {
        assert_eq!(message["state"], "handed_over");
        assert!(message["acknowledged_at"].is_string(), "{message}");
    }
}

#[tokio::test]
async fn a_message_that_was_not_acknowledged_is_offered_again() {
    let clock = std::sync::Arc::new(FakeClock::at("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap()));
    let app = Setup::default().clock(clock.clone()).start().await;
    let work = app.work("p").await;
    send(&app, &work, "hello", "user_message").await;
    let take = async || contents(&work.worker.get(&work.path("/messages?wait=0")).await.expect(200));
    assert_eq!(take().await, ["hello"]);
    assert_eq!(take().await, Vec::<String>::new(), "the worker has it");
    clock.advance(jiff::SignedDuration::from_secs(31));
    assert_eq!(take().await, ["hello"], "the worker may have died with it");
}

#[tokio::test]
async fn a_waiting_worker_is_woken_at_once() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let mut waits = Vec::new();
    for n in 0..5 {
        let (worker, path) = (work.worker.clone(), work.path("/messages?wait=30"));
        let poll = tokio::spawn(async move {
            let taken = worker.get(&path).await.expect(200);
            (Instant::now(), taken)
        });
        eventually("the worker waits", async || app.state.hub.is_watched(&work.sandbox.id)).await;
        assert!(!poll.is_finished(), "nothing to take yet");
        let id = send(&app, &work, &format!("m{n}"), "user_message").await;
        let acknowledged = Instant::now();
        let (taken_at, taken) = sunaba_testkit::within("the poll returns", poll).await.unwrap();
        assert_eq!(contents(&taken), [format!("m{n}")]);
        waits.push(taken_at.saturating_duration_since(acknowledged));
        work.worker.get(&work.path(&format!("/messages?ack={id}"))).await.expect(200);
    }
    waits.sort();
    assert!(waits[2] < Duration::from_millis(100), "{waits:?}");
}

#[tokio::test]
async fn a_poll_that_gets_nothing_ends_in_its_time() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let started = Instant::now();
    let taken = work.worker.get(&work.path("/messages?wait=1")).await.expect(200);
    assert_eq!(taken, json!([]));
    assert!((Duration::from_millis(950)..Duration::from_secs(5)).contains(&started.elapsed()));
    for bad in ["wait=61", "wait=-1", "wait=x", "ack=a%20b"] {
        work.worker
            .get(&work.path(&format!("/messages?{bad}")))
            .await
            .expect_problem(422, "validation_failed");
    }
}

#[tokio::test]
async fn only_the_sandbox_itself_takes() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    send(&app, &work, "hello", "user_message").await;
    for _ in 0..2 {
        let seen = app.admin.get(&work.path("/messages?wait=0")).await.expect(200);
        assert_eq!(contents(&seen), ["hello"], "looking changes nothing");
    }
    assert_eq!(contents(&work.worker.get(&work.path("/messages?wait=0")).await.expect(200)), ["hello"]);
}

#[tokio::test]
async fn legacy_polls_take_once_and_a_new_worker_gets_it_again() {
    let app = TestApp::open().await;
    let path = "/api/v1/sandboxes/old-style";
    let anyone = app.anonymous();
    let start = json!({"event_type": "agent.started", "event_data": {}});
    anyone.post(&format!("{path}/events"), start.clone()).await.expect(200);
    anyone.post(&format!("{path}/messages"), json!({"content": "hello"})).await.expect(200);
    let poll = async || contents(&anyone.get(&format!("{path}/messages")).await.expect(200));
    assert_eq!(poll().await, ["hello"]);
    anyone.post(&format!("{path}/events"), start).await.expect(200);
    assert_eq!(poll().await, ["hello"], "the worker that took it is gone");
    assert_eq!(poll().await, Vec::<String>::new());
    let injected = json!({"event_type": "agent.message_injected", "event_data": {"content": "hello"}});
    anyone.post(&format!("{path}/events"), injected).await.expect(200);
    let history = anyone.get(&format!("{path}/messages/history")).await.expect(200);
    assert_eq!(history["messages"][0]["state"], "consumed", "{history}");
}

#[tokio::test]
async fn what_cannot_be_a_message_is_refused() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    for body in [
        json!({}),
        json!({"content": ""}),
        json!({"content": 1}),
        json!({"content": "x".repeat(64 * 1024 + 1)}),
        json!({"content": "é".repeat(33 * 1024)}),
        json!({"content": "a\u{0}b"}),
        json!({"content": "x", "message_type": "shout"}),
    ] {
        app.admin.post(&work.path("/messages"), body).await.expect_problem(422, "validation_failed");
    }
    app.admin.post(&work.path("/messages"), json!({"content": "x".repeat(64 * 1024)})).await.expect(200);
    app.admin
        .post("/api/v1/sandboxes/none/messages", json!({"content": "x"}))
        .await
        .expect_problem(404, "sandbox_not_found");
}

#[tokio::test]
async fn a_thousand_may_wait_and_no_more() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let sends = (0..1000).map(async |_| send(&app, &work, "again", "user_message").await);
    futures::future::join_all(sends).await;
    let answer = app.admin.post(&work.path("/messages"), json!({"content": "one too many"})).await;
    answer.expect_problem(429, "message_queue_full");
    assert!(!answer.header("retry-after").is_empty());
}

#[tokio::test]
async fn a_legacy_answer_that_nobody_read_hands_over_nothing() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    send(&app, &work, "hello", "user_message").await;
    let poll = async || {
        let request = http::Request::get(work.path("/messages"))
            .header("authorization", format!("Bearer {}", work.worker.token.as_deref().unwrap()))
            .body(axum::body::Body::empty())
            .unwrap();
        app.server.answer(request).await
    };
    let state = async || {
        let history = app.admin.get(&work.path("/messages/history")).await.expect(200);
        history["messages"][0]["state"].as_str().unwrap().to_owned()
    };
    drop(poll().await);
    assert_eq!(state().await, "queued");
    let answer = poll().await;
    let text = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
    assert_eq!(contents(&serde_json::from_slice(&text).unwrap()), ["hello"]);
    assert_eq!(state().await, "handed_over");
    let again = work.worker.get(&work.path("/messages")).await;
    assert_eq!(again.expect(200), json!([]));
}

#[tokio::test]
async fn a_long_history_comes_in_pages_by_bytes() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let text = "x".repeat(64 * 1024);
    let sends = (0..150).map(async |_| send(&app, &work, &text, "user_message").await);
    futures::future::join_all(sends).await;
    let (mut after, mut seen) = (0, 0);
    loop {
        let path = work.path(&format!("/messages/history?limit=1000&after_seq={after}"));
        let page = app.admin.get(&path).await.expect(200);
        let count = page["messages"].as_array().unwrap().len();
        assert!(count < 150, "one page holds all of it");
        seen += count;
        match page["next_after_seq"].as_i64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, 150);
    let waiting = app.admin.get(&work.path("/messages?wait=0")).await.expect(200);
    assert!((100..150).contains(&waiting.as_array().unwrap().len()));
}
