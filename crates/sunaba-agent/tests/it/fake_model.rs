//! A model on loopback that plays a script, one act a request, and keeps what it was sent. The script is written as
//! Messages streams; whoever asks in another protocol gets them in that one.
//!
//! It speaks HTTP by hand, because half of what it has to play is wrong on purpose.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::dialect::translated;

/// What the server does with one request.
pub(crate) enum Act {
    /// A whole stream.
    Stream(String),
    /// A whole stream, but not before a permit is there.
    Gated(Arc<Semaphore>, String),
    /// The beginning of a stream, then a cut connection.
    Cut(String),
    /// The beginning of a stream, then nothing until the caller goes away, which adds a permit.
    Stall(String, Arc<Semaphore>),
    /// An answer that is no stream: status, extra header lines, body.
    Plain(u16, &'static str, Value),
}

impl Act {
    fn map_stream(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Stream(stream) => Self::Stream(change(stream)),
            Self::Gated(gate, stream) => Self::Gated(gate, change(stream)),
            Self::Cut(stream) => Self::Cut(change(stream)),
            Self::Stall(stream, gone) => Self::Stall(change(stream), gone),
            plain @ Self::Plain(..) => plain,
        }
    }
}

pub(crate) struct FakeModel {
    pub(crate) url: String,
    pub(crate) openai_url: String,
    pub(crate) google_url: String,
    requests: Arc<Mutex<Vec<Value>>>,
    heads: Arc<Mutex<Vec<String>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FakeModel {
    pub(crate) async fn start(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("http://{address}/gateway/anthropic");
        let openai_url = format!("http://{address}/gateway/openai/v1");
        let google_url = format!("http://{address}/gateway/google");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let heads = Arc::new(Mutex::new(Vec::new()));
        let serving = tokio::spawn(serve(listener, acts, Arc::clone(&requests), Arc::clone(&heads)));
        Self { url, openai_url, google_url, requests, heads, serving }
    }

    /// The bodies of the requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    /// Their request lines and headers.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn serve(
    listener: TcpListener,
    acts: Vec<Act>,
    requests: Arc<Mutex<Vec<Value>>>,
    heads: Arc<Mutex<Vec<String>>>,
) {
    let mut acts = acts.into_iter();
    loop {
        let (mut socket, _) = listener.accept().await.unwrap();
        let Some((head, body)) = read_request(&mut socket).await else { continue };
        if head.starts_with("HEAD ") || head.starts_with("GET ") {
            // Some programs look whether there is anybody, or which models there are, before they speak.
            let _ =
                socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
            continue;
        }
        heads.lock().unwrap().push(head.clone());
        requests.lock().unwrap().push(body.clone());
        let beyond =
            || Act::Plain(400, "", json!({"error": {"type": "script_ended", "message": "no act left"}}));
        let act = acts.next().unwrap_or_else(beyond).map_stream(|stream| translated(&head, &body, &stream));
        tokio::spawn(play(socket, act));
    }
}

async fn read_request(socket: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 8192];
        let read = socket.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok())
            .unwrap_or(0);
        while bytes.len() < end + 4 + length {
            let read = socket.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
            bytes.extend_from_slice(&buffer[..read]);
        }
        let body = &bytes[end + 4..];
        return Some((
            head,
            if body.is_empty() { Value::Null } else { serde_json::from_slice(body).unwrap() },
        ));
    }
}

async fn play(mut socket: TcpStream, act: Act) {
    match act {
        Act::Stream(body) => {
            begin_stream(&mut socket).await;
            send_chunk(&mut socket, &body).await;
            end_stream(&mut socket).await;
        }
        Act::Gated(gate, body) => {
            gate.acquire().await.unwrap().forget();
            begin_stream(&mut socket).await;
            send_chunk(&mut socket, &body).await;
            end_stream(&mut socket).await;
        }
        Act::Cut(body) => {
            begin_stream(&mut socket).await;
            send_chunk(&mut socket, &body).await;
        }
        Act::Stall(body, gone) => {
            begin_stream(&mut socket).await;
            send_chunk(&mut socket, &body).await;
            let _ = socket.read(&mut [0; 16]).await;
            gone.add_permits(1);
        }
        Act::Plain(status, headers, body) => {
            let body = body.to_string();
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n\
content-length: {}\r\n{headers}\r\n{body}",
                body.len()
            );
            let _ = socket.write_all(answer.as_bytes()).await;
        }
    }
}

async fn begin_stream(socket: &mut TcpStream) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\
transfer-encoding: chunked\r\n\r\n";
    let _ = socket.write_all(head.as_bytes()).await;
}

async fn send_chunk(socket: &mut TcpStream, body: &str) {
    let _ = socket.write_all(format!("{:x}\r\n{body}\r\n", body.len()).as_bytes()).await;
}

async fn end_stream(socket: &mut TcpStream) {
    let _ = socket.write_all(b"0\r\n\r\n").await;
}

/// One event of a stream.
pub(crate) fn sse(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// The first event of a stream.
pub(crate) fn head() -> String {
    head_after(10)
}

/// The first event of an answer to so many tokens.
pub(crate) fn head_after(input_tokens: u64) -> String {
    let usage = json!({
        "input_tokens": input_tokens, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3,
    });
    let message =
        json!({"id": "msg_1", "model": "fake-1", "role": "assistant", "content": [], "usage": usage});
    sse(&json!({"type": "message_start", "message": message})) + &sse(&json!({"type": "ping"}))
}

/// The words of a block, in two pieces.
pub(crate) fn text(index: usize, words: &str) -> String {
    let (first, second) = words.split_at(words.floor_char_boundary(words.len() / 2));
    let delta = |piece: &str| {
        let delta = json!({"type": "text_delta", "text": piece});
        sse(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let block = json!({"type": "text", "text": ""});
    sse(&json!({"type": "content_block_start", "index": index, "content_block": block}))
        + &delta(first)
        + &delta(second)
        + &sse(&json!({"type": "content_block_stop", "index": index}))
}

/// A thought with its signature.
pub(crate) fn thinking(index: usize, thought: &str) -> String {
    let delta = |delta: Value| sse(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
    let block = json!({"type": "thinking", "thinking": "", "signature": ""});
    sse(&json!({"type": "content_block_start", "index": index, "content_block": block}))
        + &delta(json!({"type": "thinking_delta", "thinking": thought}))
        + &delta(json!({"type": "signature_delta", "signature": "signed"}))
        + &sse(&json!({"type": "content_block_stop", "index": index}))
}

/// A tool request with its arguments as JSON text, in two pieces.
pub(crate) fn tool_with(index: usize, id: &str, name: &str, arguments: &str) -> String {
    let (first, second) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
    let delta = |piece: &str| {
        let delta = json!({"type": "input_json_delta", "partial_json": piece});
        sse(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    sse(&json!({"type": "content_block_start", "index": index, "content_block": block}))
        + &delta(first)
        + &delta(second)
        + &sse(&json!({"type": "content_block_stop", "index": index}))
}

/// The last events of a stream.
pub(crate) fn tail(stop_reason: &str) -> String {
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    sse(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}))
        + &sse(&json!({"type": "message_stop"}))
}

/// An answer of words only.
pub(crate) fn says(words: &str) -> Act {
    Act::Stream(head() + &text(0, words) + &tail("end_turn"))
}

/// An answer that asks for these tools; their ids are `t0`, `t1` …
pub(crate) fn asks(tools: &[(&str, Value)]) -> Act {
    let blocks: String = tools
        .iter()
        .enumerate()
        .map(|(index, (name, input))| tool_with(index, &format!("t{index}"), name, &input.to_string()))
        .collect();
    Act::Stream(head() + &blocks + &tail("tool_use"))
}
