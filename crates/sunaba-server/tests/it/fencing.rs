//! A worker that has lost its standing is told so on every route it may call, and changes nothing.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::json;
use sunaba_testkit::{Answer, Client, Setup, TestApp, Work};
use sunaba_types::{BlobHash, FakeClock};

/// Everything that a sandbox's token opens, as `auth.rs` lists it.
async fn every_call(worker: &Client, work: &Work) -> Vec<(&'static str, Answer)> {
    let event = json!({"event_type": "agent.message", "event_data": {"n": 1}});
    let batch = json!({"events": [event, {"event_type": "y"}]});
    vec![
        ("events", worker.post(&work.path("/events"), event.clone()).await),
        ("batch", worker.post(&work.path("/events/batch"), batch).await),
        ("blobs", worker.post_raw(&work.path("/blobs"), "late").await),
        ("transcript", worker.put_raw(&work.path("/transcripts/s"), "late").await),
        ("legacy poll", worker.get(&work.path("/messages")).await),
        ("explicit poll", worker.get(&work.path("/messages?wait=0")).await),
        ("acknowledgement", worker.get(&work.path("/messages?ack=msg_1")).await),
        ("task", worker.get(&work.path("/task")).await),
        ("usage", worker.get(&work.path("/usage")).await),
    ]
}

async fn assert_refused(app: &TestApp, worker: &Client, work: &Work, code: &str) {
    let (head, feed) =
        (app.store.log_head(&work.sandbox.id).await.expect("up"), app.store.feed_head().await.expect("up"));
    for (what, answer) in every_call(worker, work).await {
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (409, code), "{what}: {}", answer.text);
    }
    assert_eq!(app.store.log_head(&work.sandbox.id).await.expect("up"), head);
    assert_eq!(app.store.feed_head().await.expect("up"), feed);
    assert_eq!(app.store.blob_owners(&BlobHash::of(b"late")).await.expect("up"), vec![]);
}

#[tokio::test]
async fn a_superseded_worker_gets_409_everywhere() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    app.admin.post(&work.path("/messages"), json!({"content": "for the first"})).await.expect(200);
    let stale = app.worker(&work.sandbox.id, work.sandbox.attempt + 1).await;
    assert_refused(&app, &stale, &work, "attempt_superseded").await;
    let waiting = work.worker.get(&work.path("/messages?wait=0")).await.expect(200);
    assert_eq!(waiting[0]["content"], "for the first", "it was left for its own worker");
    let second = app.supersede(&work).await;
    assert_refused(&app, &work.worker, &work, "attempt_superseded").await;
    let worker = app.worker(&second.id, second.attempt).await;
    let own = Work { sandbox: second, worker: worker.clone(), ..work };
    for (what, answer) in every_call(&worker, &own).await {
        assert!(answer.status.is_success(), "{what}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_poll_that_waits_ends_when_its_place_is_taken() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let polling = tokio::spawn({
        let (worker, path) = (work.worker.clone(), work.path("/messages?wait=20"));
        async move { worker.get(&path).await }
    });
    app.supersede(&work).await;
    polling.await.unwrap().expect_problem(409, "attempt_superseded");
}

#[tokio::test]
async fn an_ended_sandbox_may_be_late_for_ten_minutes() {
    let clock = Arc::new(FakeClock::at("2026-01-01T00:00:00Z".parse().unwrap()));
    let app = Setup::default().clock(clock.clone()).start().await;
    let work = app.work("p").await;
    app.admin.delete(&work.path("")).await.expect(200);
    clock.advance(SignedDuration::from_secs(599));
    for (what, answer) in every_call(&work.worker, &work).await {
        assert!(answer.status.is_success(), "{what}: {}", answer.text);
    }
    clock.advance(SignedDuration::from_secs(1));
    for (what, answer) in every_call(&work.worker, &work).await {
        assert_eq!((answer.status.as_u16(), answer.code()), (409, "sandbox_ended".to_owned()), "{what}");
    }
}
