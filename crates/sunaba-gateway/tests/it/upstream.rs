use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::HeaderMap;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{World, listen, request};

pub(crate) const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":11,\"output_tokens\":1}}}\n\n";
const END: &str =
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":22}}\n\n";

pub(crate) type Seen = Arc<Mutex<Vec<(String, HeaderMap)>>>;

/// A provider that streams what the test feeds it.
pub(crate) async fn provider(pieces: mpsc::Receiver<Result<Bytes, std::io::Error>>) -> (String, Seen) {
    let seen = Seen::default();
    let noted = Arc::clone(&seen);
    let pieces = Arc::new(Mutex::new(Some(pieces)));
    let router = Router::new().fallback(move |request: Request| {
        noted.lock().unwrap().push((request.uri().to_string(), request.headers().clone()));
        let mut pieces = pieces.lock().unwrap().take().unwrap();
        let body = Body::from_stream(futures::stream::poll_fn(move |cx| pieces.poll_recv(cx)));
        async move {
            let answer = Response::builder().header("content-type", "text/event-stream");
            answer.header("request-id", "r1").header("set-cookie", "x").body(body).unwrap()
        }
    });
    (listen(router).await, seen)
}

pub(crate) async fn post(world: &World) -> reqwest::Response {
    let url = format!("{}/gateway/anthropic/v1/messages?beta=true", world.base);
    let call = reqwest::Client::new().post(url).header("x-api-key", "sandbox-token");
    let call = call.header("authorization", "Bearer sandbox-token").header("anthropic-version", "2023-06-01");
    call.json(&request(json!([{"role": "user", "content": "hi"}]))).send().await.unwrap()
}

/// A call whose answer has begun: its world, what the provider says next, and what the client hears of it.
pub(crate) async fn in_mid_answer()
-> (World, mpsc::Sender<Result<Bytes, std::io::Error>>, BoxStream<'static, reqwest::Result<Bytes>>) {
    let (feed, pieces) = mpsc::channel(4);
    let (address, _seen) = provider(pieces).await;
    let world = World::with_upstream(&address).await;
    feed.send(Ok(Bytes::from(START))).await.unwrap();
    let mut stream = post(&world).await.bytes_stream().boxed();
    stream.next().await.unwrap().unwrap();
    (world, feed, stream)
}

#[tokio::test]
async fn a_real_model_is_reached_with_the_real_key_and_nothing_is_held_back() {
    let (feed, pieces) = mpsc::channel(4);
    let (address, seen) = provider(pieces).await;
    let world = World::with_upstream(&address).await;
    feed.send(Ok(Bytes::from(START))).await.unwrap();
    let answer = post(&world).await;
    assert_eq!(answer.headers()["request-id"], "r1");
    assert!(!answer.headers().contains_key("set-cookie"));
    let mut stream = answer.bytes_stream();
    // The first piece arrives while the provider still holds the rest.
    assert_eq!(stream.next().await.unwrap().unwrap(), START);
    feed.send(Ok(Bytes::from(END))).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), END);
    drop(feed);
    assert!(stream.next().await.is_none());

    let (uri, headers) = seen.lock().unwrap().pop().unwrap();
    assert_eq!(uri, "/v1/messages?beta=true");
    assert_eq!(headers["x-api-key"], "real-key");
    assert_eq!(headers["anthropic-version"], "2023-06-01");
    assert!(!format!("{headers:?}").contains("sandbox-token"));
    let calls = world.events("gateway.model_call", 1).await;
    assert_eq!((&calls[0]["input_tokens"], &calls[0]["output_tokens"]), (&json!(11), &json!(22)));
    assert_eq!((&calls[0]["status"], &calls[0]["error"]), (&json!(200), &Value::Null));
    assert!(!calls[0].to_string().contains("key"));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_seen_and_recorded() {
    let (world, feed, mut stream) = in_mid_answer().await;
    feed.send(Err(std::io::Error::other("cut"))).await.unwrap();
    assert!(stream.next().await.unwrap().is_err(), "a broken answer must not look whole");
    let calls = world.events("gateway.model_call", 1).await;
    assert!(calls[0]["error"].as_str().unwrap().contains("broke off"), "{}", calls[0]);
    assert_eq!(calls[0]["input_tokens"], 11);
}

#[tokio::test]
async fn a_provider_that_is_away_is_a_vendor_error() {
    let world = World::with_upstream("http://127.0.0.1:9").await;
    let answer = post(&world).await;
    assert_eq!(answer.status().as_u16(), 502);
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["error"]["type"], "api_error");
    world.events("gateway.model_call", 1).await;
}

#[tokio::test]
async fn a_vendors_limit_with_a_known_end_is_said() {
    let router = Router::new().fallback(|| async {
        let words = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}});
        (http::StatusCode::TOO_MANY_REQUESTS, [("retry-after", "3600")], axum::Json(words))
    });
    let world = World::with_upstream(&listen(router).await).await;
    let answer = post(&world).await;
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().unwrap()), (429, "3600"));
    assert!(answer.text().await.unwrap().contains("slow down"));
    let said = world.events("gateway.quota", 1).await;
    assert!(said[0]["until"].as_str().unwrap().ends_with('Z'), "{}", said[0]);
    let calls = world.events("gateway.model_call", 1).await;
    assert_eq!((&calls[0]["error"], &calls[0]["known_by"]), (&json!("slow down"), &json!("refused")));
    assert_eq!(world.spent().await, (0, 0));
    let task = world.store.find_task(world.sandbox.task_id.as_ref().unwrap()).await.unwrap().unwrap();
    assert_eq!(task.status, sunaba_types::TaskState::WaitingQuota, "an hour is not waited for in a sandbox");
}

#[tokio::test]
async fn a_limit_that_ends_too_late_is_not_waited_for() {
    let router = Router::new().fallback(|| async {
        let in_a_year = [("retry-after", "31536000")];
        (http::StatusCode::TOO_MANY_REQUESTS, in_a_year, axum::Json(json!({"type": "error"})))
    });
    let world = World::with_upstream(&listen(router).await).await;
    assert_eq!(post(&world).await.status().as_u16(), 429);
    world.events("gateway.quota", 1).await;
    let row = world.store.find_sandbox(&world.sandbox.id).await.unwrap().unwrap();
    assert_eq!(row.terms.suspended, None, "it fails with what the vendor says");
}
