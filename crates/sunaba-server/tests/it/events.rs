//! Events come in: once, in order, to the byte, or not at all.

use serde_json::{Value, json};
use sunaba_engine::SandboxTrigger;
use sunaba_store::SandboxChange;
use sunaba_testkit::TestApp;
use sunaba_types::new_event_id;

#[tokio::test]
async fn an_event_is_answered_with_its_place() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    work.say("agent.started", json!({})).await;
    let body = json!({"event_type": "agent.message", "event_data": {"content": "hi"}});
    let answer = work.worker.post(&work.path("/events"), body).await.expect(200);
    assert_eq!(answer["status"], "received");
    assert_eq!(answer["sandbox_id"], work.sandbox.id.as_str());
    assert_eq!(answer["event_type"], "agent.message");
    assert!(answer["event_id"].is_string() && answer["timestamp"].is_string(), "{answer}");
    let next = work.say("agent.message", json!({})).await;
    assert_eq!(next, answer["seq"].as_i64().unwrap() + 1);
}

#[tokio::test]
async fn the_payload_is_kept_to_the_byte() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let data = "{ \"b\" : 1.50,\n \"a\":\"\\u00e9\" , \"n\":12345678901234567890123 }";
    let body = format!("{{\"event_type\":\"x\",\"event_data\":{data}}}");
    work.worker.post_raw(&work.path("/events"), body).await.expect(200);
    let list = app.admin.get(&work.path("/events?event_type=x")).await;
    assert!(list.text.contains(data), "{}", list.text);
    let verdict = app.admin.get(&work.path("/verify")).await.expect(200);
    assert_eq!(verdict["ok"], true, "{verdict}");
}

#[tokio::test]
async fn a_retry_is_stored_once_and_published_once() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let mut feed = app.watch(&app.admin, "event_types=SANDBOX_agent.message").await;
    let body = json!({"event_type": "agent.message", "event_data": {"n": 1}, "event_id": new_event_id()});
    let first = work.worker.post(&work.path("/events"), body.clone()).await.expect(200);
    let again = work.worker.post(&work.path("/events"), body.clone()).await.expect(200);
    assert_eq!(first["seq"], again["seq"]);
    let mut other = body;
    other["event_data"]["n"] = json!(2);
    work.worker.post(&work.path("/events"), other).await.expect_problem(409, "event_id_conflict");
    let last = work.say("agent.message", json!({"n": 3})).await;
    let numbers = [feed.next_event().await.unwrap(), feed.next_event().await.unwrap()]
        .map(|f| f["payload"]["n"].clone());
    assert_eq!(numbers, [json!(1), json!(3)], "seq {last}");
}

#[tokio::test]
async fn one_poisoned_event_of_a_batch_is_rejected_alone() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let mut events: Vec<Value> =
        (0..100).map(|n| json!({"event_type": "agent.message", "event_data": {"n": n}})).collect();
    events[42] = json!({"event_type": "sandbox.state_changed", "event_data": {"to": "completed"}});
    events[43] = json!("not an event");
    events[44] = json!({"event_type": "agent.message", "event_data": {"x": "\u{0}"}});
    events[45] = json!({"event_type": "agent.message", "event_data": []});
    let answer = work.worker.post(&work.path("/events/batch"), json!({"events": events})).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 100);
    let mut last = None;
    for (index, result) in results.iter().enumerate() {
        if (42..=45).contains(&index) {
            assert_eq!(result["status"], "rejected", "{index}: {result}");
            assert!(result["code"].is_string() && result["detail"].is_string());
            continue;
        }
        assert_eq!(result["status"], "received", "{index}: {result}");
        let seq = result["seq"].as_i64().unwrap();
        assert!(last.is_none_or(|last| seq > last), "in order");
        last = Some(seq);
    }
    let list = app.admin.get(&work.path("/events?event_type=agent.message")).await.expect(200);
    assert_eq!(list["total_count"], 96);
}

#[tokio::test]
async fn a_body_that_is_wrong_as_a_whole_stores_nothing() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let before = app.store.log_head(&work.sandbox.id).await.unwrap().last_seq;
    let many = json!({"events": vec![json!({"event_type": "x"}); 501]}).to_string();
    let cases: [(&str, String, u16); 12] = [
        ("/events", "{".into(), 400),
        ("/events", "[]".into(), 422),
        ("/events", "{}".into(), 422),
        ("/events", r#"{"event_type": 1}"#.into(), 422),
        ("/events", json!({"event_type": "x".repeat(101)}).to_string(), 422),
        ("/events", json!({"event_type": "x", "event_data": {"a": "\u{0}"}}).to_string(), 422),
        (
            "/events",
            json!({"event_type": "x", "event_data": {"a": "y".repeat(1024 * 1024)}}).to_string(),
            413,
        ),
        (
            "/events",
            json!({"event_type": "x", "event_data": {"a": "y".repeat(1200 * 1024)}}).to_string(),
            413,
        ),
        ("/events/batch", r#"{"events": {}}"#.into(), 422),
        ("/events/batch", r#"{"events": [{"event_type": "x"}"#.into(), 400),
        ("/events/batch", r#"{"events": []}"#.into(), 422),
        ("/events/batch", many, 422),
    ];
    for (path, body, status) in cases {
        let shown: String = body.chars().take(60).collect();
        let answer = work.worker.post_raw(&work.path(path), body).await;
        assert_eq!(answer.status, status, "{path} {shown}: {}", answer.text);
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
    assert_eq!(app.store.log_head(&work.sandbox.id).await.unwrap().last_seq, before);
}

#[tokio::test]
async fn a_field_at_fault_is_named_and_an_unknown_one_ignored() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let body = json!({"event_type": 5, "source": "nobody", "event_data": 7});
    let answer = work.worker.post(&work.path("/events"), body).await;
    answer.expect_problem(422, "validation_failed");
    let fields: Vec<Value> =
        answer.json()["errors"].as_array().unwrap().iter().map(|error| error["field"].clone()).collect();
    assert_eq!(fields, [json!("event_type"), json!("source"), json!("event_data")]);
    let body = json!({"event_type": "x", "whatever": [1], "event_data": null});
    work.worker.post(&work.path("/events"), body).await.expect(200);
}

#[tokio::test]
async fn a_sandbox_cannot_speak_for_the_server() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let before = app.store.log_head(&work.sandbox.id).await.unwrap();
    let forged = [
        "gateway.git",
        "Gateway.x",
        "GATEWAY_MODEL_CALL",
        "gateway_egress",
        "sandbox.state_changed",
        "SANDBOX_x",
        "Sandbox.Failed",
        "SANDBOX_FAILED",
        "sandbox_failed",
        "failed",
        "State.Changed",
        "TERMINATED_IDLE",
        "Message_Queued",
        "message.delivered",
    ];
    for event_type in forged {
        let answer = work.worker.post(&work.path("/events"), json!({"event_type": event_type})).await;
        answer.expect_problem(422, "validation_failed");
        assert_eq!(answer.json()["errors"][0]["field"], "event_type", "{event_type}");
    }
    let events: Vec<Value> = forged.iter().map(|name| json!({"event_type": name})).collect();
    let batch = work.worker.post(&work.path("/events/batch"), json!({"events": events})).await.expect(200);
    let results = batch["results"].as_array().unwrap();
    assert!(
        results.len() == forged.len() && results.iter().all(|result| result["status"] == "rejected"),
        "{batch}"
    );
    assert_eq!(app.store.log_head(&work.sandbox.id).await.unwrap(), before, "nothing of it is in the log");
    for source in ["system", "guardian", "user"] {
        let body = json!({"event_type": "x", "source": source});
        work.worker.post(&work.path("/events"), body.clone()).await.expect_problem(422, "validation_failed");
        app.admin.post(&work.path("/events"), body).await.expect(200);
    }
}

#[tokio::test]
async fn a_body_must_say_that_it_is_json() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    for kind in ["text/plain", "application/x-www-form-urlencoded"] {
        let request = work.worker.request(reqwest::Method::POST, &work.path("/events"));
        let answer =
            work.worker.send(request.header("content-type", kind).body("{\"event_type\":\"x\"}")).await;
        answer.expect_problem(415, "unsupported_media_type");
    }
}

#[tokio::test]
async fn a_superseded_attempt_is_told_to_stop() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let stale = app.worker(&work.sandbox.id, work.sandbox.attempt - 1).await;
    let body = json!({"event_type": "agent.message"});
    stale.post(&work.path("/events"), body.clone()).await.expect_problem(409, "attempt_superseded");
    let batch = json!({"events": [body, {"event_type": "y"}]});
    stale.post(&work.path("/events/batch"), batch).await.expect_problem(409, "attempt_superseded");
}

#[tokio::test]
async fn only_an_admin_registers_a_sandbox_by_its_first_event() {
    let app = TestApp::start().await;
    let personal = app.personal(&["read", "write"], &[]).await;
    let body = json!({"event_type": "agent.started", "event_data": {}});
    let path = "/api/v1/sandboxes/outside-1/events";
    personal.post(path, body.clone()).await.expect_problem(404, "sandbox_not_found");
    app.admin.post(path, body).await.expect(200);
    let sandbox = app.admin.get("/api/v1/sandboxes/outside-1").await.expect(200);
    assert_eq!((&sandbox["provider"], &sandbox["state"]), (&json!("external"), &json!("running")));
}

#[tokio::test]
async fn the_first_event_makes_it_run_and_a_failure_ends_it() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    work.say("agent.heartbeat", json!({})).await;
    let state = |answer: Value| answer["state"].clone();
    assert_eq!(state(app.admin.get(&work.path("")).await.expect(200)), "running");
    work.say("agent.failed", json!({"error": "boom"})).await;
    let sandbox = app.admin.get(&work.path("")).await.expect(200);
    assert_eq!((&sandbox["state"], &sandbox["reason"]), (&json!("failed"), &json!("boom")));
    work.say("agent.shutdown", json!({})).await;
    let change = SandboxChange { trigger: Some(SandboxTrigger::Cancel), ..SandboxChange::default() };
    assert!(app.store.change_sandbox(&work.sandbox.id, change).await.is_err(), "ended is ended");
}
