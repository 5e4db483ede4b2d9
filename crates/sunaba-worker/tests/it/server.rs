//! A server for one worker: takes events, gives messages and plays the model.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixListener};

/// What the model does in one turn.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    Bash(String),
    Tool(String, Value),
    Say(String),
    /// The call is refused.
    Refuse,
}

/// How the route for events behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mood {
    #[default]
    Taking,
    Unavailable,
    Superseded,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) events: Vec<Value>,
    /// How often each batch route was called, taken or not.
    pub(crate) batches: usize,
    pub(crate) largest_batch: usize,
    /// The types of the events that came last together.
    pub(crate) last_batch: Vec<String>,
    pub(crate) heartbeats: Vec<Value>,
    pub(crate) mood: Mood,
    pub(crate) messages: VecDeque<Value>,
    pub(crate) acknowledged: Vec<String>,
    pub(crate) model_requests: Vec<Value>,
    pub(crate) without_token: usize,
    /// What each model call costs.
    pub(crate) call_cost_usd: f64,
    turns: Vec<Turn>,
}

#[derive(Debug, Clone)]
pub(crate) struct Server {
    state: Arc<Mutex<State>>,
}

impl Server {
    /// A server whose model plays these turns, the last one for ever.
    pub(crate) fn new(turns: Vec<Turn>) -> Self {
        Self { state: Arc::new(Mutex::new(State { turns, ..State::default() })) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                server.serve(stream);
            }
        });
        address
    }

    pub(crate) fn listen_at(&self, path: &Path) {
        let listener = UnixListener::bind(path).unwrap();
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                server.serve(stream);
            }
        });
    }

    fn serve(&self, stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static) {
        let server = self.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(server.answer(request).await) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let method = request.method().clone();
        let mut shown = request.headers().values().filter_map(|value| value.to_str().ok());
        // A look whether there is anybody asks for nothing.
        if method != Method::HEAD && !shown.any(|text| text.contains("the-token")) {
            self.state().without_token += 1;
        }
        let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if path.ends_with("/events/batch") {
            self.batch(&body)
        } else if path.ends_with("/events") {
            self.state().heartbeats.push(body);
            json_answer(200, &json!({"status": "received"}))
        } else if path.ends_with("/messages") && method == Method::GET {
            self.messages(&query).await
        } else if path.ends_with("/usage") {
            let state = self.state();
            let calls = u32::try_from(state.model_requests.len()).unwrap();
            json_answer(200, &json!({"model": {"cost_usd": state.call_cost_usd * f64::from(calls)}}))
        } else if method == Method::HEAD {
            Response::new(Full::default())
        } else if path.contains("/transcripts/") {
            json_answer(200, &json!({}))
        } else if path.ends_with("/gateway/idle") {
            json_answer(200, &json!({"open_calls": 0}))
        } else {
            self.model(body)
        }
    }

    fn batch(&self, body: &Value) -> Response<Full<Bytes>> {
        let mut state = self.state();
        state.batches += 1;
        match state.mood {
            Mood::Unavailable => return json_answer(503, &json!({"code": "store_unavailable"})),
            Mood::Superseded => return json_answer(409, &json!({"code": "attempt_superseded"})),
            Mood::Taking => {}
        }
        let events = body["events"].as_array().unwrap().clone();
        state.largest_batch = state.largest_batch.max(events.len());
        state.last_batch =
            events.iter().map(|event| event["event_type"].as_str().unwrap().to_owned()).collect();
        let results: Vec<_> =
            events.iter().map(|event| json!({"status": "received", "event_id": event["event_id"]})).collect();
        state.events.extend(events);
        json_answer(200, &json!({ "results": results }))
    }

    async fn messages(&self, query: &str) -> Response<Full<Bytes>> {
        let acks = query.split('&').find_map(|pair| pair.strip_prefix("ack=")).unwrap_or_default();
        self.state().acknowledged.extend(acks.split(',').filter(|id| !id.is_empty()).map(str::to_owned));
        for _ in 0..2500 {
            let waiting: Vec<_> = self.state().messages.drain(..).collect();
            if !waiting.is_empty() {
                return json_answer(200, &Value::Array(waiting));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        json_answer(200, &json!([]))
    }

    fn model(&self, body: Value) -> Response<Full<Bytes>> {
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let played = messages.iter().filter(|message| message["role"] == "assistant").count();
        let mut state = self.state();
        state.model_requests.push(body);
        let turn = state.turns.get(played).or(state.turns.last()).cloned().expect("the script has a turn");
        let stream = match turn {
            Turn::Bash(command) => call(played, "Bash", &json!({ "command": command })),
            Turn::Tool(name, input) => call(played, &name, &input),
            Turn::Refuse => {
                let error = json!({"type": "invalid_request_error", "message": "not this one"});
                return json_answer(400, &json!({"type": "error", "error": error}));
            }
            Turn::Say(text) => {
                let block = json!({"type": "text", "text": ""});
                stream(played, &block, &json!({"type": "text_delta", "text": text}), "end_turn")
            }
        };
        Response::builder()
            .header("content-type", "text/event-stream")
            .body(Full::new(Bytes::from(stream)))
            .unwrap()
    }

    /// The types of the events so far.
    pub(crate) fn types(&self) -> Vec<String> {
        self.state().events.iter().map(|event| event["event_type"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn has(&self, event_type: &str) -> bool {
        self.types().iter().any(|seen| seen == event_type)
    }

    /// The details of every event of this type.
    pub(crate) fn all(&self, event_type: &str) -> Vec<Value> {
        let state = self.state();
        let found = state.events.iter().filter(|event| event["event_type"] == event_type);
        found.map(|event| event["event_data"].clone()).collect()
    }

    /// The details of the only event of this type.
    pub(crate) fn only(&self, event_type: &str) -> Value {
        let state = self.state();
        let found: Vec<_> = state.events.iter().filter(|event| event["event_type"] == event_type).collect();
        assert_eq!(found.len(), 1, "{event_type}: {found:?}");
        found[0]["event_data"].clone()
    }
}

fn json_answer(status: u16, body: &Value) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(Bytes::from(body.to_string()))).unwrap()
}

fn call(number: usize, name: &str, input: &Value) -> String {
    let block = json!({"type": "tool_use", "id": format!("call_{number}"), "name": name, "input": {}});
    let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
    stream(number, &block, &delta, "tool_use")
}

fn stream(number: usize, block: &Value, delta: &Value, stop_reason: &str) -> String {
    let id = format!("msg_{number}");
    let start = json!({"type": "message_start", "message": {"id": id, "type": "message", "role": "assistant",
        "model": "test", "content": [], "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 1}}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 5}});
    [
        start,
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        end,
        json!({"type": "message_stop"}),
    ]
    .iter()
    .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    .collect()
}
