//! What an agent asks, who may answer, and what time does.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use sunaba_testkit::{Setup, TestApp, Work};
use sunaba_types::FakeClock;

fn bash(name: &str, command: &str) -> Value {
    json!({"client_id": name, "tool": "Bash", "tool_use_id": format!("toolu_{name}"), "input": {"command": command}})
}

async fn ask(work: &Work, name: &str) -> String {
    let asked = work.worker.post(&work.path("/questions"), bash(name, "ls")).await.expect(200);
    assert_eq!(asked["state"], "open");
    asked["id"].as_str().expect("an id").to_owned()
}

fn of(work: &Work, id: &str, rest: &str) -> String {
    work.path(&format!("/questions/{id}{rest}"))
}

/// A sandbox whose questions wait a minute and are then decided by this policy.
async fn deciding(app: &TestApp, policy: &str) -> Work {
    let work = app.work("p").await;
    let execution = json!({"question_hold_seconds": 60, "question_policy": policy});
    let body = json!({"project_id": work.project.id.as_str(), "prompt": "x", "execution_config": execution,
        "provider": "external"});
    let made = app.admin.post("/api/v1/sandboxes", body).await.expect(201);
    let id = made["id"].as_str().expect("an id").parse().expect("an id");
    let sandbox = app.store.find_sandbox(&id).await.expect("up").expect("made");
    let worker = app.worker(&sandbox.id, sandbox.attempt).await;
    Work { sandbox, worker, ..work }
}

#[tokio::test]
async fn an_answer_reaches_the_worker_that_waits_for_it() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let id = ask(&work, "a").await;
    assert_eq!(ask(&work, "a").await, id, "asked again it is the same question");
    let waiting = tokio::spawn({
        let (worker, path) = (work.worker.clone(), of(&work, &id, "?wait=30"));
        async move { worker.get(&path).await.expect(200) }
    });
    let open = app.admin.get("/api/v1/questions?state=open").await.expect(200);
    assert_eq!(open["questions"][0]["id"], id.as_str());
    assert_eq!(open["questions"][0]["input"], json!({"command": "ls"}));
    let person = app.personal(&["read", "write"], &[&work.project.id]).await;
    let answer = json!({"decision": "allow", "updated_input": {"command": "pwd"}});
    let answered = person.post(&of(&work, &id, "/answer"), answer.clone()).await.expect(200);
    let heard = tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("in time").unwrap();
    assert_eq!(heard, answered);
    assert_eq!((&heard["answer"], &heard["updated_input"]), (&json!("allow"), &json!({"command": "pwd"})));
    app.admin.post(&of(&work, &id, "/answer"), answer).await.expect(200);
    let other = json!({"decision": "deny"});
    app.admin.post(&of(&work, &id, "/answer"), other).await.expect_problem(409, "question_answered");
    let listed = app.admin.get(&work.path("/questions")).await.expect(200);
    assert_eq!(listed["questions"].as_array().expect("a list").len(), 1);
    assert_eq!(listed["next_before"], Value::Null);
    let page = app.admin.get(&work.path("/questions?limit=1&state=answered")).await.expect(200);
    assert_eq!(page["next_before"], id.as_str());
    let events = app.admin.get(&work.path("/events?event_types=agent.question_*,sandbox.question_*")).await;
    let events = events.expect(200);
    assert_eq!(events["events"][0]["event_type"], "sandbox.question_answered");
    assert_eq!(events["events"][0]["source"], "system");
    assert_eq!(events["events"][1]["event_type"], "agent.question_asked");
    assert_eq!(events["events"][1]["source"], "agent");
}

#[tokio::test]
async fn only_the_sandbox_asks_and_only_people_answer() {
    let app = TestApp::start().await;
    let (work, other) = (app.work("own").await, app.work("other").await);
    let id = ask(&work, "a").await;
    let answer = json!({"decision": "allow"});
    work.worker
        .post(&of(&work, &id, "/answer"), answer.clone())
        .await
        .expect_problem(403, "not_for_sandboxes");
    work.worker.get("/api/v1/questions").await.expect_problem(403, "not_for_sandboxes");
    work.worker.get(&work.path("/questions")).await.expect_problem(403, "not_for_sandboxes");
    other.worker.get(&of(&work, &id, "")).await.expect_problem(404, "sandbox_not_found");
    other
        .worker
        .post(&work.path("/questions"), bash("b", "x"))
        .await
        .expect_problem(404, "sandbox_not_found");
    other.worker.get(&of(&other, &id, "")).await.expect_problem(404, "question_not_found");
    app.admin.post(&work.path("/questions"), bash("b", "x")).await.expect_problem(403, "sandbox_only");
    app.admin.post(&of(&work, &id, "/withdraw"), json!({})).await.expect_problem(403, "sandbox_only");
    app.admin
        .post(&of(&other, &id, "/answer"), answer.clone())
        .await
        .expect_problem(404, "question_not_found");
    let reader = app.personal(&["read"], &[]).await;
    reader.post(&of(&work, &id, "/answer"), answer.clone()).await.expect_problem(403, "scope_missing");
    let stranger = app.personal(&["read", "write"], &[&other.project.id]).await;
    stranger.post(&of(&work, &id, "/answer"), answer).await.expect_problem(404, "sandbox_not_found");
    let seen = stranger.get("/api/v1/questions").await.expect(200);
    assert_eq!(seen["questions"], json!([]));
    assert_eq!(app.admin.get(&of(&work, &id, "")).await.expect(200)["state"], "open", "nothing has changed");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let id = ask(&work, "a").await;
    let head = app.store.log_head(&work.sandbox.id).await.expect("up");
    let long = "x".repeat(1024 * 1024 + 1);
    for (body, field) in [
        (json!({"tool_use_id": "t", "input": {}}), "tool"),
        (json!({"tool": "", "tool_use_id": "t", "input": {}}), "tool"),
        (json!({"tool": "Bash", "input": {}}), "tool_use_id"),
        (json!({"tool": "Bash", "tool_use_id": "x".repeat(201), "input": {}}), "tool_use_id"),
        (json!({"tool": "Bash", "tool_use_id": "t"}), "input"),
        (json!({"tool": "Bash", "tool_use_id": "t", "input": "ls"}), "input"),
        (json!({"tool": "Bash", "tool_use_id": "t", "input": {"a": "\u{0}"}}), "input"),
        (json!({"tool": "Bash", "tool_use_id": "t", "input": {"a": long}}), "input"),
        (json!({"tool": "Bash", "tool_use_id": "t", "input": {}, "client_id": 7}), "client_id"),
    ] {
        let refused = work.worker.post(&work.path("/questions"), body).await.expect(422);
        assert_eq!(refused["errors"][0]["field"], field);
    }
    for (body, field) in [
        (json!({}), "decision"),
        (json!({"decision": "maybe"}), "decision"),
        (json!({"decision": "allow", "updated_input": []}), "updated_input"),
        (json!({"decision": "deny", "updated_input": {}}), "updated_input"),
        (json!({"decision": "allow", "message": "fine"}), "message"),
        (json!({"decision": "deny", "message": ""}), "message"),
        (json!({"decision": "deny", "message": "x".repeat(64 * 1024 + 1)}), "message"),
        (json!({"decision": "allow", "remember": "everything"}), "remember"),
    ] {
        let refused = app.admin.post(&of(&work, &id, "/answer"), body).await.expect(422);
        assert_eq!(refused["errors"][0]["field"], field);
    }
    app.admin.post_raw(&of(&work, &id, "/answer"), "{").await.expect(400);
    work.worker
        .post(&work.path("/questions"), bash("a", "rm"))
        .await
        .expect_problem(409, "question_id_conflict");
    for query in ["?state=shut", "?limit=0", "?before=a/b"] {
        app.admin.get(&format!("/api/v1/questions{query}")).await.expect_problem(422, "validation_failed");
    }
    app.admin.get(&of(&work, &id, "?wait=61")).await.expect_problem(422, "validation_failed");
    app.admin.get(&of(&work, "qst_none", "")).await.expect_problem(404, "question_not_found");
    app.admin.get(&of(&work, "a%20b", "")).await.expect_problem(422, "validation_failed");
    assert_eq!(app.store.log_head(&work.sandbox.id).await.expect("up"), head);
}

#[tokio::test]
async fn a_superseded_worker_neither_asks_nor_hears() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let id = ask(&work, "a").await;
    let waiting = tokio::spawn({
        let (worker, path) = (work.worker.clone(), of(&work, &id, "?wait=30"));
        async move { worker.get(&path).await }
    });
    app.supersede(&work).await;
    // It may hear that its sandbox is over before it hears that another one took its place.
    let heard = waiting.await.unwrap();
    assert!(heard.code() == "attempt_superseded" || heard.json()["state"] == "withdrawn", "{}", heard.text);
    for answer in [
        work.worker.post(&work.path("/questions"), bash("b", "ls")).await,
        work.worker.get(&of(&work, &id, "")).await,
        work.worker.post(&of(&work, &id, "/withdraw"), json!({})).await,
    ] {
        answer.expect_problem(409, "attempt_superseded");
    }
    let over = app.admin.post(&of(&work, &id, "/answer"), json!({"decision": "allow"})).await;
    over.expect_problem(409, "question_withdrawn");
}

#[tokio::test]
async fn an_interrupted_agent_withdraws_its_question() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let id = ask(&work, "a").await;
    let body = json!({"reason": "the agent was interrupted"});
    let withdrawn = work.worker.post(&of(&work, &id, "/withdraw"), body).await.expect(200);
    assert_eq!(withdrawn["state"], "withdrawn");
    let late = app.admin.post(&of(&work, &id, "/answer"), json!({"decision": "allow"})).await;
    late.expect_problem(409, "question_withdrawn");
    assert!(late.json()["detail"].as_str().expect("words").contains("the agent was interrupted"));
}

#[tokio::test]
async fn when_nobody_answers_the_policy_does() {
    for (policy, answer) in [("deny", "deny"), ("allow", "allow")] {
        let clock = Arc::new(FakeClock::at("2026-01-01T00:00:00Z".parse().unwrap()));
        let app = Setup::default()
            .clock(clock.clone())
            .config(|config| config.providers.push("external".to_owned()))
            .start()
            .await;
        let work = deciding(&app, policy).await;
        let id = ask(&work, "a").await;
        let waiting = tokio::spawn({
            let (worker, path) = (work.worker.clone(), of(&work, &id, "?wait=30"));
            async move { worker.get(&path).await.expect(200) }
        });
        clock.advance(SignedDuration::from_secs(61));
        let heard = tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("in time").unwrap();
        assert_eq!((&heard["state"], &heard["answer"]), (&json!("expired"), &json!(answer)));
        let late = app.admin.post(&of(&work, &id, "/answer"), json!({"decision": "allow"})).await;
        late.expect_problem(409, "question_expired");
        let events = app.admin.get(&work.path("/events?event_types=sandbox.question_*")).await.expect(200);
        assert_eq!(events["events"][0]["event_type"], "sandbox.question_expired");
        assert_eq!(events["total_count"], 1);
    }
}

#[tokio::test]
async fn a_question_outlives_the_server() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let id = ask(&work, "a").await;
    let path = of(&work, &id, "");
    let dir = app.stop().await;
    let app = Setup::default().start_in(dir).await;
    assert_eq!(app.admin.get(&path).await.expect(200)["state"], "open");
    app.admin.post(&format!("{path}/answer"), json!({"decision": "deny", "message": "no"})).await.expect(200);
}
