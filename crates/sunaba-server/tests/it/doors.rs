//! The door of a sandbox lets that sandbox through and nobody else.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use axum::routing::any;
use sunaba_server::Doors;
use sunaba_testkit::{Setup, TestApp, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

/// Asks through a socket; gives the whole answer.
async fn ask(socket: &Path, method: &str, path: &str, token: Option<&str>, body: &str) -> String {
    let authorization = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:3129\r\nconnection: close\r\n{authorization}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    within("an answer through the door", async {
        let mut stream = UnixStream::connect(socket).await.expect("the door is open");
        stream.write_all(request.as_bytes()).await.expect("the request is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("the answer comes whole");
        answer
    })
    .await
}

#[track_caller]
fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).expect("an HTTP answer")
}

async fn check(app: TestApp) {
    let (own, other) = (app.work("own").await, app.work("other").await);
    let doors = Doors::new(app.server.clone(), CancellationToken::new());
    let dir = app.path("sandboxes/own/door");
    let socket = dir.join("gateway.sock");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(&socket, "left behind").expect("a file");
    doors.open(&own.sandbox.id, &dir).await.expect("the door opens");
    doors.open(&own.sandbox.id, &dir).await.expect("twice is harmless");
    assert_eq!(std::fs::metadata(&socket).expect("the socket is there").permissions().mode() & 0o777, 0o666);

    let event = "{\"event_type\":\"agent.started\"}";
    let path = own.path("/events");
    let token = own.worker.token.as_deref();
    assert_eq!(status(&ask(&socket, "POST", &path, token, event).await), "200");
    assert_eq!(status(&ask(&socket, "POST", &path, None, event).await), "401");
    assert_eq!(status(&ask(&socket, "GET", "/api/v1/sandboxes", None, "").await), "401");
    for foreign in [&other.worker, &app.admin] {
        let answer = ask(&socket, "POST", &path, foreign.token.as_deref(), event).await;
        assert!(status(&answer) == "403" && answer.contains("wrong_door"), "{answer}");
    }
    let answer = ask(&socket, "POST", "/gateway/anthropic/v1/messages", token, "{}").await;
    assert!(answer.contains(own.sandbox.id.as_str()), "the gateway is told who asks: {answer}");

    doors.close(&own.sandbox.id).await;
    assert!(!socket.exists());
    assert!(UnixStream::connect(&socket).await.is_err());
}

fn gateway() -> axum::Router {
    axum::Router::new().route(
        "/anthropic/v1/messages",
        any(|axum::Extension(caller): axum::Extension<sunaba_gateway::Caller>| async move {
            format!("{} {:?} {}", caller.sandbox_id, caller.project_id, caller.attempt)
        }),
    )
}

#[tokio::test]
async fn a_door_is_for_its_own_sandbox() {
    check(Setup::default().gateway(gateway()).start().await).await;
}

#[tokio::test]
async fn a_door_asks_for_a_token_where_nobody_else_must_show_one() {
    let setup = Setup::default().gateway(gateway()).config(|c| c.auth = sunaba_server::AuthMode::Off);
    check(setup.start().await).await;
}

#[tokio::test]
async fn the_gateway_is_for_sandboxes_only() {
    let app = Setup::default().gateway(gateway()).start().await;
    let work = app.work("p").await;
    let path = "/gateway/anthropic/v1/messages";
    let answer = work.worker.get(path).await;
    assert!(answer.text.contains(work.sandbox.id.as_str()) && answer.text.contains(work.project.id.as_str()));
    app.admin.get(path).await.expect_problem(403, "sandboxes_only");
    app.anonymous().get(path).await.expect_problem(401, "unauthorized");
    let by_path = app.anonymous().get(&format!("/w/{}{path}", work.worker.token.as_deref().unwrap())).await;
    assert!(by_path.text.contains(work.sandbox.id.as_str()));
}

#[tokio::test]
async fn a_door_in_a_long_directory_opens_too() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let doors = Doors::new(app.server.clone(), CancellationToken::new());
    let dir = app.path("d".repeat(60)).join("e".repeat(60));
    doors.open(&work.sandbox.id, &dir).await.expect("a long path is no obstacle");
    assert!(dir.join("gateway.sock").exists());
}

#[tokio::test]
async fn a_sandbox_that_dials_without_end_fills_only_its_own_door() {
    let app = TestApp::start().await;
    let (greedy, other) = (app.work("greedy").await, app.work("other").await);
    let doors = Doors::new(app.server.clone(), CancellationToken::new());
    let (dir, other_dir) = (app.path("greedy"), app.path("other"));
    doors.open(&greedy.sandbox.id, &dir).await.expect("the door opens");
    doors.open(&other.sandbox.id, &other_dir).await.expect("the door opens");
    let socket = dir.join("gateway.sock");
    let mut held = Vec::new();
    for _ in 0..128 {
        held.push(UnixStream::connect(&socket).await.expect("it is taken or queued"));
    }
    let event = "{\"event_type\":\"agent.started\"}";
    let (path, token) = (greedy.path("/events"), greedy.worker.token.clone());
    let late = tokio::spawn(async move { ask(&socket, "POST", &path, token.as_deref(), event).await });
    let elsewhere = other_dir.join("gateway.sock");
    let (path, token) = (other.path("/events"), other.worker.token.as_deref());
    for _ in 0..20 {
        assert_eq!(status(&ask(&elsewhere, "POST", &path, token, event).await), "200");
        app.admin.get("/api/v1/sandboxes").await.expect(200);
    }
    assert!(!late.is_finished(), "one more than the door takes was let in");
    drop(held);
    assert_eq!(status(&late.await.expect("the late one is answered")), "200");
}

/// Answers every stream with its sandbox's id and then says back what it hears; keeps who was closed.
#[derive(Debug, Default)]
struct Echo(std::sync::Mutex<Vec<String>>);

#[async_trait::async_trait]
impl sunaba_server::StreamHandler for Echo {
    async fn handle(&self, id: sunaba_types::SandboxId, mut stream: sunaba_server::BoxedStream) {
        stream.write_all(format!("{id}\n").as_bytes()).await.expect("it is taken");
        let mut piece = [0; 64];
        while let Ok(length @ 1..) = stream.read(&mut piece).await {
            stream.write_all(&piece[..length]).await.expect("it is taken");
        }
    }
    async fn closed(&self, id: &sunaba_types::SandboxId) {
        self.0.lock().expect("no test panics while it holds this").push(id.to_string());
    }
    async fn drained(&self) {
        self.0.lock().expect("no test panics while it holds this").push("drained".to_owned());
    }
}

#[tokio::test]
async fn the_way_out_is_beside_the_door_and_closes_with_it() {
    let app = TestApp::start().await;
    let work = app.work("p").await;
    let (id, echo) = (&work.sandbox.id, std::sync::Arc::new(Echo::default()));
    let stop = CancellationToken::new();
    let doors = Doors::new(app.server.clone(), stop.clone()).with_egress(echo.clone());
    let dir = app.path("door");
    doors.open(id, &dir).await.expect("the door opens");
    let socket = dir.join("egress.sock");
    assert_eq!(std::fs::metadata(&socket).expect("the socket is there").permissions().mode() & 0o777, 0o666);
    let mut stream = UnixStream::connect(&socket).await.expect("the way out is open");
    let mut line = vec![0; id.as_str().len() + 1];
    within("the id", stream.read_exact(&mut line)).await.expect("it comes");
    assert_eq!(line, format!("{id}\n").into_bytes());

    let (mut near, far) = tokio::io::duplex(64);
    let serving = {
        let (doors, id) = (doors.clone(), id.clone());
        tokio::spawn(async move { doors.serve_egress_stream(&id, far).await })
    };
    within("the id", near.read_exact(&mut line)).await.expect("a tunnelled stream is served alike");
    assert_eq!(line, format!("{id}\n").into_bytes());

    doors.close(id).await;
    assert!(!socket.exists());
    let ended = within("the end", stream.read(&mut [0; 8])).await;
    assert!(matches!(ended, Ok(0) | Err(_)), "what runs ends with the door");
    within("the tunnelled one's end", serving).await.expect("it ends too");
    assert_eq!(*echo.0.lock().unwrap(), [id.to_string()]);
    stop.cancel();
    within("all doors closed", doors.drained()).await;
    assert_eq!(echo.0.lock().unwrap().last().unwrap(), "drained");
}

/// Everything that comes on a connection, to its end.
async fn hear_out(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut answer = String::new();
    within("the end", stream.read_to_string(&mut answer)).await.expect("it comes whole");
    answer
}

#[tokio::test]
async fn one_way_out_too_many_is_told_so_and_a_place_that_is_free_again_is_given() {
    const MOST: usize = 64;
    let app = TestApp::start().await;
    let (greedy, other) = (app.work("greedy").await, app.work("other").await);
    let doors = Doors::new(app.server.clone(), CancellationToken::new())
        .with_egress(std::sync::Arc::new(Echo::default()))
        .with_place_wait(Duration::from_secs(2));
    let (dir, other_dir) = (app.path("greedy"), app.path("other"));
    doors.open(&greedy.sandbox.id, &dir).await.expect("the door opens");
    doors.open(&other.sandbox.id, &other_dir).await.expect("the door opens");
    let mut line = vec![0; greedy.sandbox.id.as_str().len() + 1];
    let mut held = Vec::new();
    for _ in 0..MOST {
        let mut stream = UnixStream::connect(dir.join("egress.sock")).await.expect("the way out is open");
        within("the id", stream.read_exact(&mut line)).await.expect("it has a place");
        held.push(stream);
    }
    // By socket and by tunnel: both count together.
    let mut late = UnixStream::connect(dir.join("egress.sock")).await.expect("it is taken");
    late.write_all(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n").await.expect("it is taken");
    let (mut near, far) = tokio::io::duplex(1024);
    let (served, id) = (doors.clone(), greedy.sandbox.id.clone());
    tokio::spawn(async move { served.serve_egress_stream(&id, far).await });
    for answer in [hear_out(&mut late).await, hear_out(&mut near).await] {
        assert_eq!(status(&answer), "503", "{answer}");
        let (head, words) = answer.split_once("\r\n\r\n").expect("a whole answer");
        assert!(words.contains("already has 64 connections") && words.contains("try again"), "{answer}");
        assert!(head.contains("Retry-After: ") && head.contains(&format!("Content-Length: {}", words.len())));
    }
    let mut stream = UnixStream::connect(other_dir.join("egress.sock")).await.expect("the way out is open");
    within("the id", stream.read_exact(&mut line)).await.expect("another sandbox has places of its own");

    // One that waits gets the place that becomes free.
    let (mut near, far) = tokio::io::duplex(1024);
    let id = greedy.sandbox.id.clone();
    drop(held.pop());
    tokio::spawn(async move { doors.serve_egress_stream(&id, far).await });
    within("the id", near.read_exact(&mut line)).await.expect("there is a place again");
    assert_eq!(line, format!("{}\n", greedy.sandbox.id).into_bytes());
}

#[tokio::test]
async fn a_tunnelled_stream_is_as_good_as_a_door() {
    let app = Setup::default().gateway(gateway()).start().await;
    let (own, other) = (app.work("own").await, app.work("other").await);
    let doors = Doors::new(app.server.clone(), CancellationToken::new());
    for (token, expected) in [(&own.worker.token, "HTTP/1.1 200"), (&other.worker.token, "HTTP/1.1 403")] {
        let (mut near, far) = tokio::io::duplex(1024);
        let (doors, id) = (doors.clone(), own.sandbox.id.clone());
        tokio::spawn(async move { doors.serve_gateway_stream(&id, far).await });
        let token = token.as_deref().expect("a token");
        let request = format!(
            "GET /gateway/anthropic/v1/messages HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        near.write_all(request.as_bytes()).await.expect("it is taken");
        let mut answer = String::new();
        within("an answer", near.read_to_string(&mut answer)).await.expect("it comes whole");
        assert!(answer.starts_with(expected), "{answer}");
    }
}
