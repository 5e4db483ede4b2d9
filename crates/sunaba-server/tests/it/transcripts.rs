//! Conversations: kept for those who may see their sandbox, gone on with, and what is said after the end.

use serde_json::{Value, json};
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_store::{SandboxChange, Suspension, Waits};
use sunaba_testkit::{TestApp, Work};
use sunaba_types::{BlobHash, Outcome, SandboxId};

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

fn place(work: &Work) -> String {
    work.path(&format!("/transcripts/{SESSION}"))
}

fn file(app: &TestApp, words: &str) -> std::path::PathBuf {
    let hash = BlobHash::of(words.as_bytes());
    app.path(format!("blobs/{}/{hash}", &hash.as_str()[..2]))
}

#[tokio::test]
async fn the_latest_conversation_is_kept_and_served() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let before = app.store.log_head(&work.sandbox.id).await.unwrap();
    for (turns, words) in [(1, "first"), (2, "first second")] {
        let stored = work.worker.put_raw(&format!("{}?turns={turns}", place(&work)), words).await.expect(200);
        assert_eq!(stored["hash"], BlobHash::of(words.as_bytes()).as_str());
    }
    assert!(!file(&app, "first").exists(), "what was replaced takes no room");
    let listed = app.admin.get(&work.path("/transcripts")).await.expect(200);
    let (one, more) = (&listed["transcripts"][0], &listed["transcripts"][1]);
    assert_eq!((&one["session_id"], &one["turns"], more), (&json!(SESSION), &json!(2), &Value::Null));
    assert_eq!((&one["runtime"], &one["size_bytes"]), (&json!("native"), &json!(12)));
    assert_eq!(app.admin.get(&place(&work)).await.text, "first second");
    assert_eq!(work.worker.get(&place(&work)).await.text, "first second");
    assert_eq!(app.store.log_head(&work.sandbox.id).await.unwrap(), before, "it is not part of the log");
    let other = app.work("other").await;
    let stranger = app.personal(&["read"], &[&other.project.id]).await;
    stranger.get(&place(&work)).await.expect_problem(404, "sandbox_not_found");
    stranger.get(&work.path("/transcripts")).await.expect_problem(404, "sandbox_not_found");
    other.worker.get(&place(&work)).await.expect_problem(404, "sandbox_not_found");
    other.worker.put_raw(&place(&work), "x").await.expect_problem(404, "sandbox_not_found");
    app.admin.get(&work.path("/transcripts/none")).await.expect_problem(404, "transcript_not_found");
    work.worker.put_raw(&work.path("/transcripts/a%20b"), "x").await.expect_problem(422, "validation_failed");
    let large = vec![0u8; sunaba_types::limits::BLOB_MAX_BYTES + 1];
    work.worker.put_raw(&place(&work), large).await.expect_problem(413, "blob_too_large");
    assert_eq!(app.admin.get(&place(&work)).await.text, "first second");
}

/// Ends a sandbox with a result.
async fn complete(app: &TestApp, work: &Work) {
    work.say("agent.started", json!({})).await;
    work.say("agent.completed", json!({"success": true})).await;
    let recorded = SandboxChange {
        trigger: Some(SandboxTrigger::ResultRecorded),
        task_trigger: Some(TaskTrigger::ResultRecorded),
        ..SandboxChange::default()
    };
    app.store.change_sandbox(&work.sandbox.id, recorded).await.expect("it is completing");
}

#[tokio::test]
async fn a_new_sandbox_goes_on_with_a_conversation_or_a_copy_of_it() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    work.worker.put_raw(&place(&work), "said").await.expect(200);
    let ask = async |extra: Value| {
        let mut body = json!({"prompt": "go on", "resume_session_id": SESSION});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        app.admin.post("/api/v1/sandboxes", body).await
    };
    ask(json!({})).await.expect_problem(409, "session_in_use");
    let fork = ask(json!({"fork": true})).await.expect(201);
    assert_eq!(fork["terms"]["resume"]["fork"], true);
    assert_eq!(fork["project_id"], work.project.id.as_str());
    complete(&app, &work).await;
    let next = ask(json!({"follow_up_minutes": 2})).await.expect(201);
    let resume = json!({"session_id": SESSION, "from": work.sandbox.id, "fork": false, "because": "asked"});
    assert_eq!((&next["terms"]["resume"], &next["runtime"]), (&resume, &json!("native")));
    assert_eq!(next["terms"]["follow_up_minutes"], 2.0);
    let second = ask(json!({})).await;
    second.expect_problem(409, "session_in_use");
    let tasks = app.admin.get("/api/v1/tasks?limit=50").await.expect(200);
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 3, "what was refused left no task: {tasks}");
    assert!(second.text.contains(next["id"].as_str().unwrap()), "it has not begun yet: {}", second.text);
    let id = SandboxId::parse(next["id"].as_str().unwrap()).unwrap();
    let worker = app.worker(&id, 1).await;
    let path = format!("/api/v1/sandboxes/{id}/transcripts/{SESSION}");
    assert_eq!(worker.get(&path).await.text, "said", "the worker gets what it is to go on with");
    for (extra, field) in [
        (json!({"resume_session_id": "unknown"}), "resume_session_id"),
        (json!({"runtime": "claude", "fork": true}), "runtime"),
        (json!({"follow_up_minutes": -1}), "follow_up_minutes"),
        (json!({"project_id": app.project("q").await.id, "fork": true}), "resume_session_id"),
    ] {
        let answer = ask(extra).await;
        answer.expect_problem(422, "validation_failed");
        assert_eq!(answer.json()["errors"][0]["field"], field, "{}", answer.text);
    }
    let stranger = app.personal(&["read", "write"], &[&app.project("r").await.id]).await;
    let unseen = json!({"prompt": "go on", "resume_session_id": SESSION});
    stranger.post("/api/v1/sandboxes", unseen).await.expect_problem(422, "validation_failed");
}

#[tokio::test]
async fn what_is_said_after_the_end_starts_a_new_attempt() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let say = async |kind: &str, content: &str| {
        app.admin.post(&work.path("/messages"), json!({"content": content, "message_type": kind})).await
    };
    work.say("agent.started", json!({})).await;
    assert_eq!(say("user_message", "now").await.expect(200)["effect"], "in_run");
    work.worker.put_raw(&place(&work), "said").await.expect(200);
    let taken = work.worker.get(&work.path("/messages?wait=0")).await.expect(200);
    work.say("agent.message_injected", json!({"message_id": taken[0]["id"]})).await;
    complete(&app, &work).await;
    say("interrupt", "stop").await.expect_problem(409, "sandbox_ended");
    let first = say("user_message", "and tests").await.expect(200);
    assert_eq!((&first["status"], &first["effect"]), (&json!("queued"), &json!("new_attempt")));
    assert!(first["detail"].as_str().unwrap().contains(SESSION), "{first}");
    let next = first["sandbox_id"].as_str().unwrap();
    assert_ne!(next, work.sandbox.id.as_str());
    let row = app.admin.get(&format!("/api/v1/sandboxes/{next}")).await.expect(200);
    assert_eq!(
        (&row["prompt"], &row["attempt"], &row["state"]),
        (&json!("and tests"), &json!(2), &json!("pending"))
    );
    let second = say("user_message", "and docs").await.expect(200);
    assert_eq!(
        (&second["sandbox_id"], &second["effect"]),
        (&json!(next), &json!("in_run")),
        "the present attempt"
    );
    let history = app.admin.get(&format!("/api/v1/sandboxes/{next}/messages/history")).await.expect(200);
    assert_eq!(history["messages"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_answer_that_comes_late_is_for_the_next_attempt_alone() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    work.say("agent.started", json!({})).await;
    let asked = json!({"client_id": "a", "tool": "Bash", "tool_use_id": "t", "input": {"command": "make"}});
    let question = work.worker.post(&work.path("/questions"), asked.clone()).await.expect(200);
    let path = work.path(&format!("/questions/{}", question["id"].as_str().unwrap()));
    let suspension = Suspension { waits: Waits::Input, reason: "asks".to_owned() };
    app.store.suspend(&work.sandbox.id, suspension).await.unwrap();
    let answered = app.admin.post(&format!("{path}/answer"), json!({"decision": "allow"})).await.expect(200);
    assert_eq!(answered["state"], "answered");
    for told in [work.worker.get(&path).await, work.worker.post(&work.path("/questions"), asked).await] {
        let told = told.expect(200);
        assert_eq!(
            (&told["state"], &told["answer"]),
            (&json!("open"), &Value::Null),
            "its place is given up"
        );
    }
    assert_eq!(app.admin.get(&path).await.expect(200)["answer"], "allow");
    work.say("agent.failed", json!({"error": "told to end"})).await;
    let next = app.store.wake(&work.sandbox.id).await.unwrap().expect("goes on");
    assert!(next.prompt.contains("It is allowed: make the same call again."), "{}", next.prompt);
}

#[tokio::test]
async fn a_stop_starts_nothing_whatever_was_said() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    work.say("agent.started", json!({})).await;
    work.say("agent.completed", json!({"success": true})).await;
    let recorded = SandboxChange {
        task_trigger: Some(TaskTrigger::ResultRecorded),
        outcome: Some(Outcome::NoChanges),
        ..SandboxChange::default()
    };
    app.store.change_sandbox(&work.sandbox.id, recorded).await.unwrap();
    let said = json!({"content": "one more thing", "message_type": "user_message"});
    assert_eq!(app.admin.post(&work.path("/messages"), said).await.expect(200)["effect"], "follow_up");
    assert_eq!(app.admin.delete(&work.path("")).await.expect(200)["state"], "completed");
    let task = app.admin.get(&work.path("/task")).await.expect(200);
    assert_eq!(task["status"], "completed", "{task}");
}

#[tokio::test]
async fn a_task_that_waits_can_be_cancelled() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    work.say("agent.started", json!({})).await;
    let asked = json!({"client_id": "a", "tool": "Bash", "tool_use_id": "t", "input": {"command": "make"}});
    work.worker.post(&work.path("/questions"), asked).await.expect(200);
    let suspension = Suspension { waits: Waits::Input, reason: "asks".to_owned() };
    app.store.suspend(&work.sandbox.id, suspension).await.unwrap();
    work.say("agent.failed", json!({"error": "told to end"})).await;
    let task = async || app.admin.get(&work.path("/task")).await.expect(200)["status"].clone();
    assert_eq!(task().await, "waiting_input");
    app.admin.delete(&work.path("")).await.expect(200);
    assert_eq!(task().await, "cancelled");
}
