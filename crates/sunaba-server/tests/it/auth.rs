//! Who may do what, for every route there is.

use base64::Engine as _;
use reqwest::Method;
use serde_json::json;
use sunaba_testkit::{Client, TestApp};

/// Every operation of the document, with ids filled in.
pub(crate) fn every_operation(id: &str) -> Vec<(Method, String, String)> {
    let document = serde_json::to_value(sunaba_server::openapi_document()).expect("a document");
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for method in ["get", "post", "put", "patch", "delete"] {
            if item.get(method).is_some() {
                let filled = path
                    .replace("{id}", id)
                    .replace("{hash}", &"a".repeat(64))
                    .replace("{name}", "A_KEY")
                    .replace("{session_id}", "s")
                    .replace("{question}", "qst_x");
                let method = method.to_uppercase().parse().expect("a method");
                operations.push((method, path.clone(), filled));
            }
        }
    }
    assert!(operations.len() > 30, "the document lists the routes");
    operations
}

const PUBLIC: [&str; 3] = ["/healthz", "/readyz", "/api/v1/sandboxes/health"];
/// What a sandbox's token opens, and nothing else.
const WORKERS: [(&str, &str); 11] = [
    ("POST", "/api/v1/sandboxes/{id}/events"),
    ("POST", "/api/v1/sandboxes/{id}/events/batch"),
    ("POST", "/api/v1/sandboxes/{id}/blobs"),
    ("PUT", "/api/v1/sandboxes/{id}/transcripts/{session_id}"),
    ("GET", "/api/v1/sandboxes/{id}/transcripts/{session_id}"),
    ("GET", "/api/v1/sandboxes/{id}/messages"),
    ("GET", "/api/v1/sandboxes/{id}/task"),
    ("GET", "/api/v1/sandboxes/{id}/usage"),
    ("POST", "/api/v1/sandboxes/{id}/questions"),
    ("GET", "/api/v1/sandboxes/{id}/questions/{question}"),
    ("POST", "/api/v1/sandboxes/{id}/questions/{question}/withdraw"),
];

async fn ask(who: &Client, method: &Method, path: &str) -> sunaba_testkit::Answer {
    let mut request = who.request(method.clone(), path);
    if [Method::POST, Method::PUT, Method::PATCH].contains(method) {
        request = request.header("content-type", "application/json").body("{}");
    }
    who.send(request).await
}

#[tokio::test]
async fn nothing_but_health_is_open_to_strangers() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let strangers =
        [app.anonymous(), app.admin.with_token(Some("sun_admin_0000")), app.admin.with_token(Some("hello"))];
    for (method, path, filled) in every_operation(work.sandbox.id.as_str()) {
        for stranger in &strangers {
            let answer = ask(stranger, &method, &filled).await;
            if PUBLIC.contains(&path.as_str()) {
                assert_eq!(answer.status, 200, "{path}");
            } else if path == "/api/v1/ws/events" {
                assert_eq!(answer.status, 426, "says no on the open socket");
            } else {
                answer.expect_problem(401, "unauthorized");
                assert!(!answer.header("www-authenticate").is_empty());
            }
        }
    }
    for path in ["/api/openapi.json", "/nowhere", "/metrics"] {
        app.anonymous().get(path).await.expect_problem(401, "unauthorized");
    }
}

#[tokio::test]
async fn a_sandbox_token_opens_only_its_own_workers_routes() {
    let app = TestApp::start().await;
    let (own, other) = (app.work("own").await, app.work("other").await);
    for id in [own.sandbox.id.as_str(), other.sandbox.id.as_str()] {
        for (method, path, filled) in every_operation(id) {
            if PUBLIC.contains(&path.as_str()) || path == "/api/v1/ws/events" {
                continue;
            }
            let answer = ask(&own.worker, &method, &filled).await;
            let workers = WORKERS.contains(&(method.as_str(), path.as_str()));
            match (workers, id == own.sandbox.id.as_str()) {
                (true, true) => assert_ne!(answer.status.as_u16() / 100, 5, "{path}: {}", answer.text),
                (true, false) => {
                    assert!([404, 422].contains(&answer.status.as_u16()), "{method} {path}: {}", answer.text);
                }
                (false, _) => assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text),
            }
        }
    }
    let body = json!({"event_type": "x"});
    own.worker.post(&other.path("/events"), body.clone()).await.expect_problem(404, "sandbox_not_found");
    own.worker.post(&own.path("/events"), body).await.expect(200);
    assert_eq!(own.worker.get(&own.path("/task")).await.expect(200)["id"], own.task.id.as_str());
    assert_eq!(own.worker.get(&own.path("/usage")).await.expect(200)["model"]["cost_usd"], 0.0);
}

#[tokio::test]
async fn scopes_are_kept() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let reader = app.personal(&["read"], &[]).await;
    let writer = app.personal(&["write"], &[]).await;
    let message = json!({"content": "x"});
    reader.get(&work.path("")).await.expect(200);
    reader.post(&work.path("/messages"), message.clone()).await.expect_problem(403, "scope_missing");
    reader.post(&work.path("/events"), json!({"event_type": "x"})).await.expect_problem(403, "scope_missing");
    reader.delete(&work.path("")).await.expect_problem(403, "scope_missing");
    writer.get(&work.path("")).await.expect_problem(403, "scope_missing");
    writer.get(&work.path("/messages")).await.expect_problem(403, "scope_missing");
    writer.post(&work.path("/messages"), message).await.expect(200);
    for caller in [&reader, &writer] {
        caller.get("/api/v1/tokens").await.expect_problem(403, "admin_only");
        caller.post("/api/v1/tokens", json!({"name": "x"})).await.expect_problem(403, "admin_only");
        caller.get("/api/v1/system/backup").await.expect_problem(403, "admin_only");
    }
}

#[tokio::test]
async fn a_token_may_be_carried_in_every_agreed_place() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let token = work.worker.token.clone().unwrap();
    let anyone = app.anonymous();
    let path = work.path("/events");
    let post = |path: &str| {
        anyone
            .request(Method::POST, path)
            .header("content-type", "application/json")
            .body("{\"event_type\":\"x\"}")
    };
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("git:{token}"));
    anyone.send(post(&path).header("x-api-key", &token)).await.expect(200);
    anyone.send(post(&path).header("authorization", format!("Basic {basic}"))).await.expect(200);
    anyone.send(post(&format!("/w/{token}{path}"))).await.expect(200);
    anyone.get(&format!("/w/{token}{}?wait=0", work.path("/messages"))).await.expect(200);
    anyone.send(post(&format!("/w/sun_sandbox_wrong{path}"))).await.expect_problem(401, "unauthorized");
    anyone.get(&format!("/w/{token}")).await.expect_problem(404, "no_such_route");
    anyone.send(post(&format!("{path}?token={token}"))).await.expect_problem(401, "unauthorized");
}

#[tokio::test]
async fn tokens_are_shown_once_and_can_be_revoked() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let body = json!({"name": "mine", "scopes": ["read"], "projects": [work.project.id.as_str()]});
    let made = app.admin.post("/api/v1/tokens", body).await.expect(201);
    let secret = made["token"].as_str().unwrap();
    assert!(secret.starts_with("sun_personal_"), "{secret}");
    let mine = app.admin.with_token(Some(secret));
    mine.get(&work.path("")).await.expect(200);
    let list = app.admin.get("/api/v1/tokens").await;
    assert!(!list.text.contains(secret) && list.text.contains("mine"));
    let id = made["record"]["id"].as_str().unwrap();
    let revoked = app.admin.delete(&format!("/api/v1/tokens/{id}")).await.expect(200);
    assert!(revoked["revoked_at"].is_string());
    mine.get(&work.path("")).await.expect_problem(401, "unauthorized");
    app.admin.delete(&format!("/api/v1/tokens/{id}")).await.expect(200);
    app.admin.delete("/api/v1/tokens/none").await.expect_problem(404, "token_not_found");
    for bad in [
        json!({}),
        json!({"name": ""}),
        json!({"name": "x", "kind": "king"}),
        json!({"name": "x", "scopes": ["fly"]}),
        json!({"name": "x", "kind": "sandbox"}),
        json!({"name": "x", "expires_in_seconds": 0}),
        json!({"name": "x", "projects": ["a/b"]}),
    ] {
        app.admin.post("/api/v1/tokens", bad).await.expect_problem(422, "validation_failed");
    }
}

#[tokio::test]
async fn an_expired_token_opens_nothing() {
    let clock = std::sync::Arc::new(sunaba_types::FakeClock::at("2026-01-01T00:00:00Z".parse().unwrap()));
    let app = sunaba_testkit::Setup::default().clock(clock.clone()).start().await;
    let body = json!({"name": "short", "expires_in_seconds": 60});
    let made = app.admin.post("/api/v1/tokens", body).await.expect(201);
    let short = app.admin.with_token(made["token"].as_str());
    short.get("/api/v1/sandboxes").await.expect(200);
    clock.advance(jiff::SignedDuration::from_secs(61));
    short.get("/api/v1/sandboxes").await.expect_problem(401, "unauthorized");
}

#[tokio::test]
async fn without_authentication_only_this_machine_may_ask() {
    let app = TestApp::open().await;
    let anyone = app.anonymous();
    anyone.get("/api/v1/sandboxes").await.expect(200);
    for (name, value) in [("host", "evil.example:18000"), ("origin", "https://evil.example")] {
        let request = anyone.request(Method::GET, "/api/v1/sandboxes").header(name, value);
        anyone.send(request).await.expect_problem(403, "foreign_origin");
    }
    let request = anyone.request(Method::GET, "/api/v1/sandboxes").header("origin", "http://localhost:5173");
    anyone.send(request).await.expect(200);
}
