//! The live feed: every published event once, from a position on, for those who may see it.

use std::time::Duration;

use serde_json::{Value, json};
use sunaba_testkit::{Setup, TestApp, WsReader, eventually, within};

async fn until_n(feed: &mut WsReader, n: i64) -> Vec<Value> {
    let mut frames = Vec::new();
    loop {
        let frame = feed.next_event().await.expect("the feed goes on");
        let done = frame["payload"]["n"] == n;
        frames.push(frame);
        if done {
            return frames;
        }
    }
}

#[tokio::test]
async fn a_posted_event_is_published_with_everything_about_it() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let mut feed = app.watch(&app.admin, "event_types=SANDBOX_AGENT_TOOL_USE").await;
    let body = json!({"event_type": "agent.tool_use", "event_data": {"tool": "Bash", "source": "liar"}, "source": "worker"});
    let posted = work.worker.post(&work.path("/events"), body).await.expect(200);
    let frame = feed.next_event().await.unwrap();
    assert_eq!(frame["event_type"], "SANDBOX_agent.tool_use");
    assert_eq!(
        (&frame["entity_type"], &frame["entity_id"]),
        (&json!("sandbox"), &json!(work.sandbox.id.as_str()))
    );
    assert_eq!(
        frame["payload"],
        json!({"tool": "Bash", "source": "worker", "original_event_type": "agent.tool_use"})
    );
    assert_eq!((&frame["id"], &frame["seq"]), (&posted["event_id"], &posted["seq"]));
    assert!(frame["position"].is_i64() && frame["timestamp"].is_string(), "{frame}");
}

#[tokio::test]
async fn a_subscriber_that_comes_back_sees_every_event_once_while_others_write() {
    let app = Setup::default().config(|config| config.live.ring_entries = 32).start().await;
    let work = app.work("p").await;
    let start = app.state.hub.head().unwrap();
    let writers = (0..4).map(|writer| {
        let work = &work;
        async move {
            for n in 0..75 {
                work.say("agent.message", json!({"writer": writer, "n": n})).await;
            }
        }
    });
    let read = async {
        let (mut seen, mut position) = (Vec::new(), start);
        while seen.len() < 300 {
            let mut feed =
                app.watch(&app.admin, &format!("event_types=SANDBOX_agent.message&after={position}")).await;
            for _ in 0..25 {
                // A reader that fell behind the small ring is cut and comes back, like any other.
                let Some(frame) = feed.next_event().await else { break };
                position = frame["position"].as_i64().unwrap();
                seen.push((frame["payload"]["writer"].clone(), frame["payload"]["n"].clone()));
                if seen.len() == 300 {
                    break;
                }
            }
        }
        seen
    };
    let (_, seen) = tokio::join!(futures::future::join_all(writers), read);
    for writer in 0..4 {
        let own: Vec<&Value> = seen.iter().filter(|(w, _)| *w == writer).map(|(_, n)| n).collect();
        let wanted: Vec<Value> = (0..75).map(|n| json!(n)).collect();
        assert_eq!(own, wanted.iter().collect::<Vec<_>>(), "in order, each once");
    }
}

#[tokio::test]
async fn a_position_is_good_across_a_restart() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let mut feed = app.watch(&app.admin, "event_types=SANDBOX_agent.message").await;
    work.say("agent.message", json!({"n": 1})).await;
    let position = feed.next_event().await.unwrap()["position"].clone();
    work.say("agent.message", json!({"n": 2})).await;
    let admin = app.admin.clone();
    let dir = app.stop().await;
    let app = Setup::default().start_in(dir).await;
    assert_eq!(app.admin.token, admin.token, "the admin token is kept");
    let mut feed =
        app.watch(&app.admin, &format!("event_types=SANDBOX_agent.message&after={position}")).await;
    assert_eq!(feed.next_event().await.unwrap()["payload"]["n"], 2);
}

#[tokio::test]
async fn a_malformed_frame_is_answered_and_the_connection_lives() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let mut feed = app.watch(&app.admin, "event_types=SANDBOX_agent.message").await;
    for bad in ["{", "nonsense", "[1]", r#"{"type":"subscribe","event_types":7}"#] {
        feed.say(bad).await;
        assert_eq!(feed.next().await.unwrap(), json!({"error": "Invalid JSON message"}), "{bad}");
    }
    feed.say(r#"{"type":"ping"}"#).await;
    assert_eq!(feed.next().await.unwrap()["type"], "pong");
    work.say("agent.message", json!({"n": 1})).await;
    assert_eq!(feed.next_event().await.unwrap()["payload"]["n"], 1);
}

#[tokio::test]
async fn filters_can_be_changed_on_the_way() {
    let app = TestApp::start().await;
    let (one, two) = (app.work("one").await, app.work("two").await);
    let mut feed = app
        .watch(&app.admin, &format!("event_types=SANDBOX_agent.message&entity_ids={}", one.sandbox.id))
        .await;
    two.say("agent.message", json!({"n": 0})).await;
    one.say("agent.message", json!({"n": 1})).await;
    assert_eq!(feed.next_event().await.unwrap()["payload"]["n"], 1);
    feed.say(json!({"type": "subscribe", "entity_ids": []}).to_string()).await;
    let reply = feed.next().await.unwrap();
    assert_eq!(reply["status"], "subscribed");
    assert_eq!(
        reply["filters"],
        json!({"event_types": ["SANDBOX_agent.message"], "entity_types": [], "entity_ids": []})
    );
    one.say("agent.thinking", json!({"n": 2})).await;
    two.say("agent.message", json!({"n": 3})).await;
    assert_eq!(feed.next_event().await.unwrap()["payload"]["n"], 3);
    feed.say(json!({"type": "subscribe", "event_types": [], "entity_types": ["task"]}).to_string()).await;
    feed.next().await.unwrap();
    app.task(&one.project.id, "another").await;
    assert_eq!(feed.next_event().await.unwrap()["event_type"], "TASK_CREATED");
}

#[tokio::test]
async fn a_token_may_come_by_header_query_or_first_frame() {
    let app = Setup::default().config(|c| c.live.auth_timeout = Duration::from_millis(300)).start().await;
    let token = app.admin.token.clone().unwrap();
    let anyone = app.anonymous();
    let mut by_query = app.watch(&anyone, &format!("token={token}")).await;
    let mut by_frame = app.watch(&anyone, "").await;
    by_frame.say(json!({"type": "auth", "token": token}).to_string()).await;
    for feed in [&mut by_query, &mut by_frame] {
        feed.say(r#"{"type":"ping"}"#).await;
        assert_eq!(feed.next().await.unwrap()["type"], "pong");
    }
    let worker = app.work("p").await.worker.token.unwrap();
    for (query, frame) in [
        (String::new(), None),
        (String::new(), Some(json!({"token": "sun_admin_wrong"}).to_string())),
        (String::new(), Some("garbage".to_owned())),
        ("token=sun_admin_wrong".to_owned(), None),
        (format!("token={worker}"), None),
    ] {
        let mut feed = app.watch(&anyone, &query).await;
        if let Some(frame) = &frame {
            feed.say(frame.clone()).await;
        }
        assert!(feed.next().await.unwrap()["error"].is_string(), "{query} {frame:?}");
        assert_eq!(feed.next().await, None);
        assert_eq!(feed.close_code, Some(4401), "{query} {frame:?}");
    }
}

#[tokio::test]
async fn a_revoked_token_sees_nothing_more() {
    let app = Setup::default().config(|c| c.live.recheck_every = Duration::from_millis(50)).start().await;
    let made = app.admin.post("/api/v1/tokens", json!({"name": "watcher"})).await.expect(201);
    let watcher = app.admin.with_token(made["token"].as_str());
    let mut feed = app.watch(&watcher, "").await;
    feed.say(r#"{"type":"ping"}"#).await;
    feed.next().await.expect("it is open");
    let id = made["record"]["id"].as_str().unwrap();
    app.admin.delete(&format!("/api/v1/tokens/{id}")).await.expect(200);
    while feed.next().await.is_some() {}
    assert_eq!(feed.close_code, Some(4401));
}

#[tokio::test]
async fn silence_is_broken_by_pings() {
    let app = Setup::default().config(|c| c.live.ping_every = Duration::from_millis(50)).start().await;
    let mut feed = app.watch(&app.admin, "event_types=nothing").await;
    assert_eq!(feed.next().await.unwrap(), json!({"type": "ping"}));
    assert_eq!(feed.next().await.unwrap(), json!({"type": "ping"}));
}

#[tokio::test]
async fn a_reader_that_stands_still_is_cut_off_and_slows_nobody() {
    let app = Setup::default().config(|c| c.live.send_timeout = Duration::from_millis(500)).start().await;
    let work = app.work("p").await;
    let mut stalled = app.watch(&app.admin, "event_types=SANDBOX_agent.message").await;
    let mut healthy = app.watch(&app.admin, "event_types=SANDBOX_agent.message").await;
    let filler = "x".repeat(200_000);
    // More than the sockets' own buffers hold, so that the server's send blocks.
    for n in 0..150 {
        work.say("agent.message", json!({"n": n, "filler": filler})).await;
        assert_eq!(healthy.next_event().await.unwrap()["payload"]["n"], n, "the healthy one keeps up");
    }
    // Were it to read before that, it would just be a reader that is a little late.
    eventually("the server gives it up", || async { app.state.hub.cut_readers() == 1 }).await;
    let mut seen = Vec::new();
    let overflow = loop {
        let frame = stalled.next().await.expect("told before it is cut");
        if frame["type"] == "overflow" {
            break frame;
        }
        if frame["payload"]["n"].is_i64() {
            seen.push(frame);
        }
    };
    let last = seen.last().expect("something was read");
    assert_eq!(overflow["resume_after"], last["position"], "nothing between the last frame and the cut");
    assert!(seen.len() < 150, "it was cut, not served");
    assert_eq!(stalled.next().await, None);
    let mut resumed = app
        .watch(&app.admin, &format!("event_types=SANDBOX_agent.message&after={}", overflow["resume_after"]))
        .await;
    let rest = until_n(&mut resumed, 149).await;
    let first = rest[0]["payload"]["n"].as_i64().unwrap();
    assert_eq!(first, last["payload"]["n"].as_i64().unwrap() + 1);
    assert_eq!(rest.len() + seen.len(), 150);
}

#[tokio::test]
async fn a_reader_that_falls_behind_the_ring_is_cut_off_too() {
    let app = Setup::default()
        .config(|c| {
            c.live.ring_entries = 8;
            c.live.send_timeout = Duration::from_secs(15);
        })
        .start()
        .await;
    let work = app.work("p").await;
    let mut slow = app.watch(&app.admin, "event_types=SANDBOX_agent.message").await;
    let filler = "x".repeat(500_000);
    for n in 0..60 {
        work.say("agent.message", json!({"n": n, "filler": filler})).await;
    }
    let overflow = within("the overflow frame", async {
        loop {
            let frame = slow.next().await.expect("told before it is cut");
            if frame["type"] == "overflow" {
                return frame;
            }
        }
    })
    .await;
    assert!(overflow["resume_after"].is_i64());
}

#[tokio::test]
async fn a_revoked_token_ends_a_feed_that_is_never_quiet() {
    let app = Setup::default().config(|c| c.live.recheck_every = Duration::from_millis(300)).start().await;
    let work = app.work("p").await;
    let made = app.admin.post("/api/v1/tokens", json!({"name": "w", "scopes": ["read"]})).await.expect(201);
    let (id, secret) = (made["record"]["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap());
    let reader = app.admin.with_token(Some(secret));
    let by_path = sunaba_testkit::Client::new(format!("{}/w/{secret}", app.admin.url), None);
    let mut feed = app.watch(&reader, "").await;
    let mut stream = app.stream(&by_path, &work.sandbox.id, 0).await;
    let busy = async {
        loop {
            work.say("agent.message", json!({"n": 1})).await;
        }
    };
    let watching = async {
        feed.next_event().await.expect("it is open");
        stream.next().await.expect("it is open");
        app.admin.delete(&format!("/api/v1/tokens/{id}")).await.expect(200);
        tokio::join!(async { while feed.next().await.is_some() {} }, async {
            while stream.next().await.is_some() {}
        });
    };
    tokio::select! {
        () = within("both streams end", watching) => {}
        () = busy => {}
    }
    assert_eq!(feed.close_code, Some(4401));
}
