//! Bodies that are made to cost memory and time: they cost their sandbox, not the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{World, listen, request};

const BODY_BYTES: usize = 8 * 1024 * 1024;
const AT_ONCE: usize = 8;
/// How long a light request may take beside them, on a machine that has other work too.
const LIGHT_PATIENCE: Duration = Duration::from_secs(3);

/// A provider that reads what it is sent and keeps none of it.
async fn careless() -> String {
    let router = Router::new().fallback(async |request: Request| {
        let mut body = request.into_body().into_data_stream();
        while let Some(Ok(_)) = body.next().await {}
        axum::Json(
            json!({"type": "message", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}),
        )
    });
    listen(router).await
}

/// Many small objects, each a few bytes as text and hundreds in a tree, in a place of a request.
fn hostile(place: &str) -> Bytes {
    let objects = vec![r#"{"":0}"#; BODY_BYTES / 7].join(",");
    let fields = match place {
        "unknown" => format!(r#""messages":[],"unknown":[{objects}]"#),
        "metadata" => format!(r#""messages":[],"metadata":{{"x":[{objects}]}}"#),
        "content" => format!(r#""messages":[{{"role":"user","content":[{objects}]}}]"#),
        "tools" => {
            let tool = format!(r#"{{"name":"t","input_schema":{{"properties":{{"p":[{objects}]}}}}}}"#);
            format!(r#""messages":[],"tools":[{tool}]"#)
        }
        other => panic!("{other}"),
    };
    Bytes::from(format!(r#"{{"model":"claude-x","max_tokens":10,{fields}}}"#))
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Watches this process's memory until it is dropped.
struct Watch {
    start: usize,
    most: Arc<AtomicUsize>,
    done: Arc<AtomicBool>,
}

impl Watch {
    fn new() -> Self {
        let (most, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (noted, ended) = (Arc::clone(&most), Arc::clone(&done));
        std::thread::spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                noted.fetch_max(resident_bytes(), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { start: resident_bytes(), most, done }
    }

    fn growth(&self) -> usize {
        self.most.load(Ordering::SeqCst).saturating_sub(self.start)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.done.store(true, Ordering::SeqCst);
    }
}

async fn storm(world: &World, place: &str) {
    let (_, other) = world.another_sandbox().await;
    let body = hostile(place);
    let client = reqwest::Client::new();
    let watch = Watch::new();
    let mut storm = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let call = client.post(format!("{}/gateway/anthropic/v1/messages", world.base)).body(body.clone());
        storm.spawn(async move {
            let answer = call.send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        });
    }
    let mut slowest = Duration::ZERO;
    let mut answered = Vec::new();
    while answered.len() < AT_ONCE {
        let since = Instant::now();
        let light = client.post(format!("{other}/gateway/anthropic/v1/messages"));
        let light = light.json(&request(json!([{"role": "user", "content": "hi"}]))).send().await.unwrap();
        assert_eq!(light.status().as_u16(), 200);
        slowest = slowest.max(since.elapsed());
        while let Some(done) = storm.try_join_next() {
            answered.push(done.unwrap());
        }
    }
    assert!(answered.iter().all(|(status, _)| *status == 200), "{place}: {answered:?}");
    let bound = 4 * AT_ONCE * BODY_BYTES;
    assert!(watch.growth() < bound, "{place}: {} MiB more", watch.growth() >> 20);
    assert!(slowest < LIGHT_PATIENCE, "{place}: a light request took {slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_of_small_objects_cost_little_more_than_their_bytes() {
    let world = World::with_upstream(&careless().await).await;
    for place in ["unknown", "metadata", "content", "tools"] {
        storm(&world, place).await;
    }
    let world = World::scripted("- text: hi\n").await;
    for place in ["unknown", "content", "tools"] {
        storm(&world, place).await;
    }
}

#[tokio::test]
async fn whoever_has_no_say_is_told_before_its_body_is_read() {
    let world = World::with_model("script:default").await;
    world.caller.lock().unwrap().attempt += 1;
    let address = world.base.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /gateway/anthropic/v1/messages HTTP/1.1\r\nhost: {address}\r\ncontent-length: 1000000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    tokio::time::timeout(Duration::from_secs(20), stream.read_exact(&mut start)).await.unwrap().unwrap();
    assert_eq!(&start, b"HTTP/1.1 403");
    let call = world.events("gateway.model_call", 1).await.remove(0);
    assert!(call["status"] == 403 && call["error"].as_str().unwrap().contains("superseded"), "{call}");
}

#[tokio::test]
async fn a_body_past_the_bound_is_refused_in_the_vendors_words() {
    let world = World::with_model("script:default").await;
    let url = format!("{}/gateway/anthropic/v1/messages", world.base);
    let body = vec![b' '; 32 * 1024 * 1024 + 1];
    let answer = reqwest::Client::new().post(url).body(body).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 413);
    let words: serde_json::Value = answer.json().await.unwrap();
    assert_eq!((&words["type"], &words["error"]["type"]), (&json!("error"), &json!("request_too_large")));
}
