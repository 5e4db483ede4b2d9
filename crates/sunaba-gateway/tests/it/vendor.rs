//! A vendor at the network edge: it speaks the real protocols, uses every token it is allowed, and adds up what
//! it would charge.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Uri};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::listen;

/// One request as the vendor saw it.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

#[derive(Clone)]
pub(crate) struct Vendor {
    pub(crate) address: String,
    heard: Arc<Mutex<Vec<Heard>>>,
    /// What it has charged, in millionths of a dollar, at a dollar for a million tokens in and ten out.
    charged: Arc<AtomicU64>,
    /// Answers wait for this.
    gate: Arc<Semaphore>,
}

impl Vendor {
    /// A vendor that answers at once.
    pub(crate) async fn new() -> Self {
        Self::with_gate(Semaphore::MAX_PERMITS).await
    }

    /// A vendor that answers nobody until [`Self::let_go`].
    pub(crate) async fn held() -> Self {
        Self::with_gate(0).await
    }

    async fn with_gate(permits: usize) -> Self {
        let mut vendor = Self {
            address: String::new(),
            heard: Arc::default(),
            charged: Arc::default(),
            gate: Arc::new(Semaphore::new(permits)),
        };
        let router = Router::new().fallback(answer).with_state(vendor.clone());
        vendor.address = listen(router).await;
        vendor
    }

    pub(crate) fn let_go(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS >> 1);
    }

    /// The requests to a path.
    pub(crate) fn heard(&self, path: &str) -> Vec<Heard> {
        self.heard.lock().unwrap().iter().filter(|heard| heard.path == path).cloned().collect()
    }

    /// Waits until the vendor was asked something there.
    pub(crate) async fn until_heard(&self, path: &str) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while self.heard(path).is_empty() {
            assert!(std::time::Instant::now() < deadline, "nobody asked for {path}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn charged(&self) -> i64 {
        i64::try_from(self.charged.load(Ordering::SeqCst)).unwrap()
    }
}

async fn answer(State(vendor): State<Vendor>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = uri.path().to_owned();
    let query = uri.query().map(str::to_owned);
    vendor.heard.lock().unwrap().push(Heard { path: path.clone(), query, headers, body: request.clone() });
    let input = u64::try_from(body.len()).unwrap();
    if path.ends_with("count_tokens") || path.ends_with("input_tokens") {
        // A token is about four bytes of such text.
        return axum::Json(json!({"input_tokens": input / 4})).into_response();
    }
    if path.ends_with(":countTokens") {
        return axum::Json(json!({"totalTokens": input / 4})).into_response();
    }
    if path.ends_with("/models") {
        return axum::Json(json!({"object": "list", "data": [{"id": "gpt-real"}]})).into_response();
    }
    let _open = vendor.gate.acquire().await.unwrap();
    let names = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let nested = &request["generationConfig"]["maxOutputTokens"];
    let asked = names.iter().find_map(|name| request[*name].as_u64()).or_else(|| nested.as_u64());
    let output = asked.unwrap_or(10_000);
    let input = input / 4;
    vendor.charged.fetch_add(input + output * 10, Ordering::SeqCst);
    let streamed = request["stream"] == true;
    match path.as_str() {
        "/v1/messages" => messages(streamed, input, output),
        "/v1/responses" => responses(streamed, input, output),
        "/v1/chat/completions" => chat(&request, streamed, input, output),
        path if path.ends_with(":generateContent") => google(false, input, output),
        path if path.ends_with(":streamGenerateContent") => google(true, input, output),
        _ => http::StatusCode::NOT_FOUND.into_response(),
    }
}

fn messages(streamed: bool, input: u64, output: u64) -> Response {
    if !streamed {
        let usage = json!({"input_tokens": input, "output_tokens": output});
        return axum::Json(json!({"type": "message", "content": [], "usage": usage})).into_response();
    }
    let start =
        json!({"type": "message_start", "message": {"usage": {"input_tokens": input, "output_tokens": 1}}});
    let end = json!({"type": "message_delta", "usage": {"output_tokens": output}});
    stream(&[named(&start), named(&end), named(&json!({"type": "message_stop"}))])
}

fn responses(streamed: bool, input: u64, output: u64) -> Response {
    let usage = json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": input / 2}, "output_tokens": output});
    let response =
        json!({"object": "response", "status": "completed", "output": [], "error": null, "usage": usage});
    if !streamed {
        return axum::Json(response).into_response();
    }
    let word = json!({"type": "response.output_text.delta", "delta": "hello"});
    stream(&[named(&word), named(&json!({"type": "response.completed", "response": response}))])
}

fn chat(request: &Value, streamed: bool, input: u64, output: u64) -> Response {
    let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
    if !streamed {
        return axum::Json(json!({"object": "chat.completion", "choices": [], "usage": usage}))
            .into_response();
    }
    let mut pieces =
        vec![format!("data: {}\n\n", json!({"choices": [{"delta": {"content": "hello"}}], "usage": null}))];
    if request["stream_options"]["include_usage"] == true {
        pieces.push(format!("data: {}\n\n", json!({"choices": [], "usage": usage})));
    }
    pieces.push("data: [DONE]\n\n".to_owned());
    stream(&pieces)
}

fn google(streamed: bool, input: u64, output: u64) -> Response {
    let usage = |candidates: u64, thoughts: u64| json!({"promptTokenCount": input, "cachedContentTokenCount": input / 2, "candidatesTokenCount": candidates, "thoughtsTokenCount": thoughts});
    let piece = |candidate: Value, usage: Value| json!({"candidates": [candidate], "usageMetadata": usage});
    let word = json!({"content": {"role": "model", "parts": [{"text": "hello"}]}});
    let mut ended = word.clone();
    ended["finishReason"] = json!("STOP");
    // Thoughts are output too.
    let end = piece(ended, usage(output - output / 3, output / 3));
    if !streamed {
        return axum::Json(end).into_response();
    }
    stream(&[piece(word, usage(1, 0)), end].map(|piece| format!("data: {piece}\r\n\r\n")))
}

fn named(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

fn stream(pieces: &[String]) -> Response {
    let pieces: Vec<_> =
        pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece.clone()))).collect();
    let body = Body::from_stream(futures::stream::iter(pieces));
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}
