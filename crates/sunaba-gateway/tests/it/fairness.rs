use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{World, request};

/// A model request whose body does not come: it is under way for as long as the connection is held.
async fn hang(world: &World) -> TcpStream {
    let address = world.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /gateway/anthropic/v1/messages HTTP/1.1\r\nhost: {address}\r\ncontent-length: 1000\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Asks until the answer has this status; the answer.
async fn until(world: &World, path: &str, status: u16) -> reqwest::Response {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    let body = request(json!([{"role": "user", "content": "hi"}]));
    loop {
        let url = format!("{}/gateway/{path}", world.base);
        let answer = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
        if answer.status().as_u16() == status {
            return answer;
        }
        assert!(tokio::time::Instant::now() < deadline, "{path}: {}", answer.status());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_sandbox_that_asks_without_end_is_told_to_wait() {
    let world = World::with_model("script:default").await;
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(hang(&world).await);
    }
    let busy = until(&world, "anthropic/v1/messages", 429).await;
    assert_eq!(busy.headers()["retry-after"], "1");
    let words: Value = busy.json().await.unwrap();
    assert_eq!((&words["type"], &words["error"]["type"]), (&json!("error"), &json!("rate_limit_error")));
    let git = until(&world, &format!("git/{}/git-upload-pack", world.project), 503).await;
    assert_eq!(git.headers()["retry-after"], "1");
    // Another sandbox is not held up.
    let own = world.caller.lock().unwrap().clone();
    world.caller.lock().unwrap().sandbox_id = sunaba_types::SandboxId::generate();
    until(&world, "anthropic/v1/messages", 403).await;
    *world.caller.lock().unwrap() = own;
    drop(held);
    until(&world, "anthropic/v1/messages", 200).await;
}

#[tokio::test]
async fn an_answer_that_is_not_read_yet_counts() {
    let world = World::scripted("- text: a b c d\n  delay_ms: 60000\n").await;
    let mut body = request(json!([{"role": "user", "content": "hi"}]));
    body["stream"] = json!(true);
    let body = body.to_string();
    let address = world.base.strip_prefix("http://").unwrap();
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("POST /gateway/anthropic/v1/messages HTTP/1.1\r\nhost: {address}\r\n");
        let length = format!("content-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{length}{body}").as_bytes()).await.unwrap();
        // The answer has begun, so its handler is done.
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 200");
        held.push(stream);
    }
    let url = format!("{}/gateway/anthropic/v1/messages", world.base);
    let answer = reqwest::Client::new().post(url).body(body).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 429);
}
