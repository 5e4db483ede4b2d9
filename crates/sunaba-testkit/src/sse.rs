//! Reads a sandbox's event stream.

use futures::StreamExt as _;
use serde_json::Value;
use sunaba_types::SandboxId;

use crate::{Client, within};

/// One event of the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct SseEvent {
    /// Its `id:`.
    pub id: i64,
    /// Its `data:`.
    pub data: Value,
}

/// A reader of a stream.
pub struct SseReader {
    body: futures::stream::BoxStream<'static, reqwest::Result<Vec<u8>>>,
    text: String,
}

impl std::fmt::Debug for SseReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SseReader").field("text", &self.text).finish_non_exhaustive()
    }
}

impl SseReader {
    /// Opens a sandbox's stream after a seq, given as `Last-Event-ID` where it is not 0.
    pub async fn open(who: &Client, sandbox: &SandboxId, after_seq: i64) -> Self {
        let path = format!("/api/v1/sandboxes/{sandbox}/events/stream");
        let mut request = who.request(reqwest::Method::GET, &path);
        if after_seq > 0 {
            request = request.header("last-event-id", after_seq.to_string());
        }
        let response = within("the stream opens", request.send()).await.expect("the server answers");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let body = response.bytes_stream().map(|piece| piece.map(|bytes| bytes.to_vec())).boxed();
        Self { body, text: String::new() }
    }

    /// The next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<SseEvent> {
        within("an event of the stream", async {
            loop {
                while let Some((block, rest)) = self.text.split_once("\n\n") {
                    let (block, rest) = (block.to_owned(), rest.to_owned());
                    self.text = rest;
                    if let Some(event) = read(&block) {
                        return Some(event);
                    }
                }
                let piece = self.body.next().await?.ok()?;
                self.text.push_str(&String::from_utf8(piece).expect("text"));
            }
        })
        .await
    }

    /// Everything until the stream ends.
    pub async fn rest(mut self) -> Vec<SseEvent> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

fn read(block: &str) -> Option<SseEvent> {
    let mut id = None;
    let mut data = String::new();
    for line in block.lines() {
        if let Some(value) = line.strip_prefix("id: ") {
            id = value.parse().ok();
        } else if let Some(value) = line.strip_prefix("data: ") {
            data.push_str(value);
            data.push('\n');
        }
    }
    Some(SseEvent { id: id?, data: serde_json::from_str(&data).expect("the data is JSON") })
}
