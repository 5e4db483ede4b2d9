//! Tenants see only their own, on every route and every stream.

use reqwest::Method;
use serde_json::{Value, json};
use sunaba_testkit::{TestApp, WsReader};

use crate::auth::every_operation;

/// Lists and other routes that name nothing: they answer, without the other tenant's things.
const LISTS: [&str; 4] = ["/api/v1/sandboxes", "/api/v1/projects", "/api/v1/tickets", "/api/v1/tasks"];

#[tokio::test]
async fn things_of_another_project_do_not_exist_on_any_route() {
    let app = TestApp::start().await;
    let (mine, theirs) = (app.work("mine").await, app.work("theirs").await);
    let tenant = app.personal(&["read", "write"], &[&mine.project.id]).await;
    let blob = theirs.worker.post_raw(&theirs.path("/blobs"), "their content").await.expect(201);
    let mut checked = 0;
    for (method, path, _) in every_operation("x") {
        let id = match path.as_str() {
            p if p.starts_with("/api/v1/sandboxes/{id}") => theirs.sandbox.id.as_str(),
            p if p.starts_with("/api/v1/projects/{id}") => theirs.project.id.as_str(),
            "/api/v1/tickets/{id}" => theirs.task.ticket_id.as_str(),
            "/api/v1/tasks/{id}" => theirs.task.id.as_str(),
            "/api/v1/blobs/{hash}" => blob["hash"].as_str().unwrap(),
            _ => continue,
        };
        let filled = path
            .replace("{id}", id)
            .replace("{hash}", id)
            .replace("{name}", "A_KEY")
            .replace("{session_id}", "s")
            .replace("{question}", "qst_x");
        let body = match path.rsplit('/').next() {
            Some("messages") => json!({"content": "x"}),
            Some("batch") => json!({"events": [{"event_type": "x"}]}),
            Some("{name}") => json!({"value": "x"}),
            _ => json!({"event_type": "x"}),
        };
        let mut request = tenant.request(method.clone(), &filled);
        if [Method::POST, Method::PUT, Method::PATCH].contains(&method) {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = tenant.send(request).await;
        assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text);
        let absent = filled.replace(id, &"f".repeat(id.len()));
        let mut request = tenant.request(method.clone(), &absent);
        if [Method::POST, Method::PUT, Method::PATCH].contains(&method) {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        assert_eq!(
            tenant.send(request).await.code(),
            answer.code(),
            "{method} {path}: as if there were none"
        );
        checked += 1;
    }
    assert!(checked >= 26, "only {checked} routes were checked");
}

#[tokio::test]
async fn lists_leave_out_what_is_not_ones_own() {
    let app = TestApp::start().await;
    let (mine, theirs) = (app.work("mine").await, app.work("theirs").await);
    let tenant = app.personal(&["read", "write"], &[&mine.project.id]).await;
    for path in LISTS {
        for query in ["", &format!("?project_id={}", theirs.project.id)] {
            let list = tenant.get(&format!("{path}{query}")).await;
            list.expect(200);
            assert!(!list.text.contains(theirs.project.id.as_str()), "{path}{query}: {}", list.text);
        }
        let everything = app.admin.get(path).await.text;
        assert!(everything.contains(theirs.project.id.as_str()), "{path} has something to leave out");
    }
}

#[tokio::test]
async fn nothing_can_be_made_in_another_project() {
    let app = TestApp::start().await;
    let (mine, theirs) = (app.work("mine").await, app.work("theirs").await);
    let tenant = app.personal(&["read", "write"], &[&mine.project.id]).await;
    let theirs_project = theirs.project.id.as_str();
    let ticket = json!({"project_id": theirs_project, "title": "x"});
    tenant.post("/api/v1/tickets", ticket).await.expect_problem(404, "project_not_found");
    let task = json!({"ticket_id": theirs.task.ticket_id.as_str(), "title": "x"});
    tenant.post("/api/v1/tasks", task).await.expect_problem(404, "ticket_not_found");
    let sandbox = json!({"project_id": theirs_project, "prompt": "x"});
    tenant.post("/api/v1/sandboxes", sandbox).await.expect_problem(404, "project_not_found");
    let sandbox = json!({"task_id": theirs.task.id.as_str()});
    tenant.post("/api/v1/sandboxes", sandbox).await.expect_problem(404, "task_not_found");
    let project = json!({"repo_path": app.repository("new").display().to_string()});
    tenant.post("/api/v1/projects", project).await.expect_problem(403, "all_projects_only");
    tenant.get("/metrics").await.expect_problem(403, "all_projects_only");
}

#[tokio::test]
async fn the_feed_shows_only_ones_own_projects() {
    let app = TestApp::start().await;
    let (mine, theirs) = (app.work("mine").await, app.work("theirs").await);
    let tenant = app.personal(&["read"], &[&mine.project.id]).await;
    let mut live = app.watch(&tenant, "").await;
    let mut aimed =
        app.watch(&tenant, &format!("entity_ids={},{}", theirs.sandbox.id, mine.sandbox.id)).await;
    theirs.say("agent.message", json!({"n": 1})).await;
    app.admin.post("/api/v1/sandboxes/of-no-project/events", json!({"event_type": "x"})).await.expect(200);
    mine.say("agent.message", json!({"n": 2})).await;
    let mut replayed = app.watch(&tenant, "after=0").await;
    for feed in [&mut live, &mut aimed, &mut replayed] {
        for frame in until_mine(feed).await {
            let text = frame.to_string();
            assert!(!text.contains(theirs.sandbox.id.as_str()) && !text.contains("of-no-project"), "{text}");
            assert!(
                !text.contains(theirs.project.id.as_str()) && !text.contains(theirs.task.id.as_str()),
                "{text}"
            );
        }
    }
}

async fn until_mine(feed: &mut WsReader) -> Vec<Value> {
    let mut frames = Vec::new();
    loop {
        let frame = feed.next_event().await.expect("a frame");
        let done = frame["payload"]["n"] == 2;
        frames.push(frame);
        if done {
            return frames;
        }
    }
}
