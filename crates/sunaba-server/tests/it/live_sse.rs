//! Event streams: every event once, from where the reader was, until the sandbox ends.

use serde_json::json;
use sunaba_testkit::TestApp;

#[tokio::test]
async fn a_reader_that_comes_back_sees_every_event_once_while_others_write() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let writers = (0..4).map(|writer| {
        let work = &work;
        async move {
            for n in 0..50 {
                work.say("agent.message", json!({"writer": writer, "n": n})).await;
            }
        }
    });
    let read = async {
        let mut seqs = Vec::new();
        while seqs.len() < 150 {
            let mut stream =
                app.stream(&app.admin, &work.sandbox.id, seqs.last().copied().unwrap_or(0)).await;
            for _ in 0..40 {
                let event = stream.next().await.expect("the sandbox goes on");
                assert_eq!(event.data["seq"], event.id);
                seqs.push(event.id);
            }
        }
        seqs
    };
    let (_, seqs) = tokio::join!(futures::future::join_all(writers), read);
    let wanted: Vec<i64> = (1..=i64::try_from(seqs.len()).unwrap()).collect();
    assert_eq!(seqs, wanted);
}

#[tokio::test]
async fn the_stream_ends_with_the_sandbox_and_tells_the_whole_story() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let live = app.stream(&app.admin, &work.sandbox.id, 0).await;
    work.say("agent.message", json!({"text": "line\nbreak"})).await;
    app.admin.delete(&work.path("")).await.expect(200);
    let events = live.rest().await;
    let last = events.last().expect("events");
    assert_eq!(last.data["event_type"], "sandbox.state_changed");
    assert_eq!(last.data["event_data"]["to"], "cancelled");
    assert_eq!(last.data["source"], "system");

    let replay = app.stream(&app.admin, &work.sandbox.id, 0).await.rest().await;
    assert_eq!(replay, events, "later the same, and it ends");
    let nothing = app.stream(&app.admin, &work.sandbox.id, last.id).await.rest().await;
    assert_eq!(nothing, []);
}

#[tokio::test]
async fn late_events_of_an_ended_sandbox_can_still_be_read() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    app.admin.delete(&work.path("")).await.expect(200);
    let late = work.say("agent.shutdown", json!({})).await;
    let events = app.stream(&app.admin, &work.sandbox.id, 0).await.rest().await;
    assert_eq!(events.last().unwrap().id, late);
}

#[tokio::test]
async fn payload_line_breaks_do_not_break_the_stream() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let body = "{\"event_type\":\"x\",\"event_data\":{\n\r\n \"a\":\n 1}}";
    work.worker.post_raw(&work.path("/events"), body).await.expect(200);
    app.admin.delete(&work.path("")).await.expect(200);
    let events = app.stream(&app.admin, &work.sandbox.id, 0).await.rest().await;
    assert!(events.iter().any(|event| event.data["event_data"] == json!({"a": 1})), "{events:?}");
}

#[tokio::test]
async fn a_place_that_is_none_is_refused() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    app.admin.get(&work.path("/events/stream?after_seq=x")).await.expect_problem(422, "validation_failed");
    let request =
        app.admin.request(reqwest::Method::GET, &work.path("/events/stream")).header("last-event-id", "x");
    app.admin.send(request).await.expect_problem(422, "validation_failed");
    app.admin.get("/api/v1/sandboxes/none/events/stream").await.expect_problem(404, "sandbox_not_found");
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let stream = app.stream(&app.admin, &work.sandbox.id, 0).await;
    let (worker, path) = (work.worker.clone(), work.path("/messages?wait=60"));
    let poll = tokio::spawn(async move { worker.get(&path).await });
    let mut feed = app.watch(&app.admin, "").await;
    feed.say(r#"{"type":"ping"}"#).await;
    feed.next().await.expect("the feed is open");
    let started = std::time::Instant::now();
    app.stop().await;
    assert!(started.elapsed() < std::time::Duration::from_secs(8), "{:?}", started.elapsed());
    stream.rest().await;
    while feed.next().await.is_some() {}
    assert_eq!(feed.close_code, Some(1001));
    poll.await.unwrap().expect(200);
}

#[tokio::test]
async fn an_ended_log_of_large_events_is_streamed_whole() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    app.admin.delete(&work.path("")).await.expect(200);
    for n in 0..20 {
        work.say("agent.message", json!({"n": n, "text": "x".repeat(1_000_000)})).await;
    }
    let events = app.stream(&app.admin, &work.sandbox.id, 0).await.rest().await;
    let large = events.iter().filter(|event| event.data["event_type"] == "agent.message").count();
    assert_eq!(large, 20);
}
