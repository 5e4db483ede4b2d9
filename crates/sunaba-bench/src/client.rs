//! One kept-open HTTP/1.1 connection, as cheap as a client can be, so that the
//! server is what is measured: a request is one write, an answer usually one read.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What an answer's head may take.
const HEAD_MAX: usize = 64 * 1024;

/// A connection and what each request on it says of itself.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    headers: String,
    sent: Vec<u8>,
    received: BytesMut,
}

/// The head of an answer, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: StatusCode,
    length: usize,
}

impl Connection {
    pub(crate) async fn open(authority: &str, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        let headers = format!(
            "host: {authority}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n"
        );
        Ok(Self { stream, headers, sent: Vec::new(), received: BytesMut::new() })
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: &[u8],
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let (headers, length) = (&self.headers, body.len());
        self.sent.clear();
        write!(self.sent, "{method} {path} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n")?;
        self.sent.extend_from_slice(body);
        self.stream.write_all(&self.sent).await?;
        let head = loop {
            if let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break parse(&self.received.split_to(end + 4))?;
            }
            ensure!(self.received.len() < HEAD_MAX, "the head of the answer has no end");
            self.receive().await?;
        };
        while self.received.len() < head.length {
            self.receive().await?;
        }
        Ok((head.status, self.received.split_to(head.length).freeze()))
    }

    async fn receive(&mut self) -> anyhow::Result<()> {
        self.received.reserve(4096);
        let size = self.stream.read_buf(&mut self.received).await?;
        ensure!(size > 0, "the server closed the connection");
        Ok(())
    }

    /// Posts and insists on success.
    pub(crate) async fn post(&mut self, path: &str, body: impl AsRef<[u8]>) -> anyhow::Result<Bytes> {
        let (status, body) = self.send(Method::POST, path, body.as_ref()).await.context(path.to_owned())?;
        ensure!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Gets and insists on success.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        let (status, body) = self.send(Method::GET, path, &[]).await.context(path.to_owned())?;
        ensure!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}

/// Reads the head of an answer whose length is known.
fn parse(head: &[u8]) -> anyhow::Result<Head> {
    let text = std::str::from_utf8(head)?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("no status")?.parse()?;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            return Ok(Head { status, length: value.trim().parse()? });
        }
    }
    ensure!(status == StatusCode::NO_CONTENT, "an answer without a length: {text}");
    Ok(Head { status, length: 0 })
}

/// Adds an event of ordinary size, with an id that no other has. Put together as text: a client that builds a tree
/// first would take as much of the machine as the server does.
pub(crate) fn push_event(text: &mut String, number: u64) {
    static FIRST: LazyLock<u128> = LazyLock::new(|| uuid::Uuid::now_v7().as_u128());
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let id = uuid::Uuid::from_u128(*FIRST + u128::from(COUNT.fetch_add(1, Ordering::Relaxed)));
    text.push_str(r#"{"event_id":""#);
    text.push_str(id.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()));
    text.push_str(r#"","event_type":"agent.tool_completed","event_data":"#);
    push_event_data(text, number);
    text.push('}');
}

/// Adds what such an event says.
pub(crate) fn push_event_data(text: &mut String, number: u64) {
    let turn = number / 20;
    let written = write!(
        text,
        r#"{{"turn":{turn},"tool":"Bash","tool_use_id":"toolu_{number}","tool_input":{{"command":"cargo test --workspace"}},"tool_response":"running 12 tests\ntest result: ok. 12 passed; 0 failed; 0 ignored","is_error":false,"duration_ms":1234}}"#
    );
    written.unwrap_or_else(|_| unreachable!("a text takes everything"));
}

/// Adds a batch request of `count` such events.
pub(crate) fn push_batch(text: &mut String, first: u64, count: u64) {
    text.push_str(r#"{"events":["#);
    for number in first..first + count {
        if number > first {
            text.push(',');
        }
        push_event(text, number);
    }
    text.push_str("]}");
}

/// A batch request.
pub(crate) fn batch(first: u64, count: u64) -> String {
    let mut text = String::new();
    push_batch(&mut text, first, count);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read() {
        let head = b"HTTP/1.1 201 Created\r\nx: 1\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(parse(head).expect("a head"), Head { status: StatusCode::CREATED, length: 12 });
        assert!(parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        assert!(parse(b"nonsense\r\n\r\n").is_err());
    }

    #[test]
    fn what_is_sent_is_json() {
        let sent: serde_json::Value = serde_json::from_str(&batch(40, 3)).expect("JSON");
        let events = sent["events"].as_array().expect("a list");
        assert_eq!(events.len(), 3);
        assert_eq!(events[2]["event_data"]["tool_use_id"], "toolu_42");
        assert_ne!(events[0]["event_id"], events[1]["event_id"]);
    }
}
