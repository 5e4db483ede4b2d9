//! Health, readiness, numbers, limits, and what happens when the store is away.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Method;
use serde_json::json;
use sunaba_server::ReadyCheck;
use sunaba_testkit::{Setup, TestApp};

use crate::auth::every_operation;

#[tokio::test]
async fn health_needs_no_token() {
    let app = TestApp::start().await;
    let anyone = app.anonymous();
    assert_eq!(anyone.get("/healthz").await.expect(200)["status"], "ok");
    assert_eq!(anyone.get("/readyz").await.expect(200)["status"], "ready");
    let health = anyone.get("/api/v1/sandboxes/health").await.expect(200);
    assert_eq!((&health["status"], &health["service"]), (&json!("ok"), &json!("sandbox-api")));
    assert!(health["timestamp"].is_string());
}

#[derive(Debug)]
struct NeverReady;

#[async_trait]
impl ReadyCheck for NeverReady {
    fn name(&self) -> &'static str {
        "sandboxes"
    }
    async fn check(&self) -> Result<(), String> {
        Err("no bubblewrap".to_owned())
    }
}

#[tokio::test]
async fn the_part_that_is_not_ready_is_named() {
    let app = TestApp::start().await;
    let parts = sunaba_server::Parts {
        ready_checks: vec![Arc::new(NeverReady)],
        ..sunaba_server::Parts::new(
            app.store.clone(),
            Arc::new(sunaba_types::SystemClock),
            sunaba_server::BlobFiles::new(app.path("blobs")),
            sunaba_server::ServerConfig::default(),
            tokio_util::sync::CancellationToken::new(),
        )
    };
    let server = sunaba_server::app(sunaba_server::AppState::new(parts), None);
    let request = http::Request::get("/readyz").body(axum::body::Body::empty()).unwrap();
    let answer = server.answer(request).await;
    assert_eq!(answer.status(), 503);
    let body = axum::body::to_bytes(answer.into_body(), 10_000).await.unwrap();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let parts: Vec<&str> =
        problem["errors"].as_array().unwrap().iter().map(|e| e["field"].as_str().unwrap()).collect();
    assert_eq!(parts, ["feed", "sandboxes"], "the feed has no tailer, and the sandboxes say no: {problem}");
}

#[tokio::test]
async fn with_the_store_away_everything_says_503_and_nothing_says_200() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    // Known callers stay known for a moment; what they ask for must not be answered from nothing.
    app.admin.get("/api/v1/tokens").await.expect(200);
    work.say("agent.started", json!({})).await;
    app.store.close().await;
    let mut asked = 0;
    for (method, path, filled) in every_operation(work.sandbox.id.as_str()) {
        // What the host can do is not in the store.
        let exempt = [
            "/healthz",
            "/metrics",
            "/api/v1/sandboxes/health",
            "/api/v1/agents",
            "/api/v1/system/isolation",
            "/api/v1/ws/events",
        ];
        if exempt.contains(&path.as_str()) {
            continue;
        }
        let body = match path.as_str() {
            "/api/v1/projects" => json!({"repo_path": app.repository("q").display().to_string()}),
            "/api/v1/tickets" => json!({"project_id": work.project.id.as_str(), "title": "x"}),
            "/api/v1/tasks" => json!({"ticket_id": "t", "title": "x"}),
            "/api/v1/tokens" => json!({"name": "x"}),
            "/api/v1/sandboxes" => json!({"task_id": "t"}),
            p if p.ends_with("/batch") => json!({"events": [{"event_type": "x"}]}),
            p if p.ends_with("/messages") => json!({"content": "x"}),
            p if p.ends_with("/fork") => json!({"prompt": "x"}),
            p if p.ends_with("/{name}") => json!({"value": "x"}),
            _ => json!({"event_type": "x"}),
        };
        let mut request = app.admin.request(method.clone(), &filled);
        if [Method::POST, Method::PUT, Method::PATCH].contains(&method) {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let answer = app.admin.send(request).await;
        assert_eq!(answer.status, 503, "{method} {path}: {}", answer.text);
        assert!(!answer.header("retry-after").is_empty(), "{method} {path}");
        asked += 1;
    }
    assert!(asked > 25, "{asked}");
    let own = work.worker.get(&work.path("/messages?wait=0")).await;
    assert_eq!(own.status, 503, "{}", own.text);
    let refused = app.anonymous().get("/readyz").await;
    refused.expect_problem(503, "not_ready");
    assert_eq!(refused.json()["errors"][0]["field"], "store");
}

#[tokio::test]
async fn unknown_addresses_and_wrong_methods_are_problems_too() {
    let app = TestApp::start().await;
    app.admin.get("/nowhere").await.expect_problem(404, "no_such_route");
    app.admin.get("/api/v1/sandboxes/x/nowhere").await.expect_problem(404, "no_such_route");
    app.admin.get("/gateway/anything").await.expect_problem(403, "sandboxes_only");
    let answer = app.admin.send(app.admin.request(Method::PUT, "/api/v1/sandboxes")).await;
    answer.expect_problem(405, "method_not_allowed");
    let allowed = answer.header("allow");
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    app.admin.get("/api/v1/sandboxes/%ff").await.expect_problem(400, "invalid_path");
    app.admin.get("/api/v1/sandboxes/a%20b").await.expect_problem(422, "validation_failed");
    app.admin.get("/api/v1/ws/events").await.expect_problem(426, "upgrade_required");
}

#[tokio::test]
async fn every_answer_carries_the_safe_headers_and_an_id() {
    let app = TestApp::start().await;
    for path in ["/healthz", "/nowhere", "/api/v1/sandboxes"] {
        for caller in [&app.admin, &app.anonymous()] {
            let answer = caller.get(path).await;
            assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
            assert_eq!(answer.header("x-frame-options"), "DENY", "{path}");
            assert!(answer.header("content-security-policy").contains("default-src 'none'"), "{path}");
            assert_eq!(answer.header("cache-control"), "no-store", "{path}");
            assert!(!answer.header("x-request-id").is_empty(), "{path}");
        }
    }
    let request = app.admin.request(Method::GET, "/healthz").header("x-request-id", "mine-1");
    assert_eq!(app.admin.send(request).await.header("x-request-id"), "mine-1");
    let request = app.admin.request(Method::GET, "/healthz").header("x-request-id", "not plain!");
    assert_ne!(app.admin.send(request).await.header("x-request-id"), "not plain!");
}

#[tokio::test]
async fn a_panic_is_a_problem_and_the_server_lives() {
    let crash = axum::Router::new().route("/crash", axum::routing::get(|| async { panic!("boom") as () }));
    let app = Setup::default().gateway(crash).start().await;
    let work = app.work("p").await;
    work.worker.get("/gateway/crash").await.expect_problem(500, "internal_error");
    app.anonymous().get("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_token_that_asks_too_often_is_slowed_down() {
    let app = Setup::default().config(|c| c.limits.requests_per_second = 5).start().await;
    let greedy = app.personal(&["read"], &[]).await;
    let mut last = None;
    for _ in 0..50 {
        last = Some(greedy.get("/api/v1/projects").await);
        if last.as_ref().is_some_and(|answer| answer.status == 429) {
            break;
        }
    }
    let last = last.unwrap();
    last.expect_problem(429, "rate_limited");
    assert!(!last.header("retry-after").is_empty());
    app.personal(&["read"], &[]).await.get("/api/v1/projects").await.expect(200);
}

#[tokio::test]
async fn numbers_are_kept() {
    let app = Setup::default()
        .compose(|parts| parts.metrics = Some(sunaba_server::telemetry::install()))
        .start()
        .await;
    let work = app.work("p").await;
    work.say("agent.message", json!({})).await;
    let numbers = app.admin.get("/metrics").await;
    numbers.expect(200);
    assert!(numbers.text.contains("sunaba_events_stored_total"), "{}", numbers.text);
    let route = "route=\"/api/v1/sandboxes/{id}/events\"";
    assert!(numbers.text.contains(route), "by route, not by path: {}", numbers.text);
}

#[tokio::test]
async fn bodies_that_fill_the_memory_allowed_make_others_wait_and_come_again() {
    use tokio::io::AsyncWriteExt as _;
    let app = Setup::default().config(|c| c.limits.body_bytes = 512 * 1024).start().await;
    let work = app.work("p").await;
    let address = app.admin.url.strip_prefix("http://").unwrap().to_owned();
    let token = work.worker.token.as_deref().unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n",
        work.path("/events")
    );
    let begin = async || {
        let mut slow = tokio::net::TcpStream::connect(&address).await.unwrap();
        slow.write_all(head.as_bytes()).await.unwrap();
        slow.write_all(&vec![b' '; 450_000]).await.unwrap();
        slow
    };
    let mut slow = begin().await;
    let large = json!({"event_type": "x", "event_data": {"text": "y".repeat(200_000)}});
    let refused = sunaba_testkit::within("the slow body has taken its share", async {
        loop {
            let answer = app.admin.post(&work.path("/events"), large.clone()).await;
            if answer.status == 503 {
                return answer;
            }
            if slow.try_read(&mut [0; 64]).is_ok() {
                // The slow one met a quick one and was refused itself: once more.
                slow = begin().await;
            }
        }
    })
    .await;
    refused.expect_problem(503, "too_much_in_flight");
    assert!(!refused.header("retry-after").is_empty());
    work.say("x", json!({"small": true})).await;
    drop(slow);
    sunaba_testkit::eventually("what was held is given back", async || {
        app.admin.post(&work.path("/events"), large.clone()).await.status == 200
    })
    .await;
}

/// A server that only looks after sandboxes answers those and whoever asks for its health, and nobody else.
#[tokio::test]
async fn without_the_role_api_only_sandboxes_are_answered() {
    let app = Setup::default().config(|config| config.serves_api = false).start().await;
    let work = app.work("p").await;
    for path in ["/healthz", "/readyz", "/api/v1/sandboxes/health"] {
        app.anonymous().get(path).await.expect(200);
    }
    assert!(work.say("agent.message", json!({"content": "here"})).await > 0);
    let by_path = format!("/w/{}{}", work.worker.token.as_deref().unwrap(), work.path("/task"));
    app.anonymous().get(&by_path).await.expect(200);
    for path in ["/api/v1/projects", "/api/openapi.json", &work.path("/events"), "/api/v1/ws/events"] {
        let refused = app.admin.get(path).await.expect(503);
        assert_eq!(refused["code"], "role_not_here", "{path}");
    }
    app.anonymous().get("/api/v1/projects").await.expect(401);
}
