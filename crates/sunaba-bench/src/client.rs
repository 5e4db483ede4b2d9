//! One kept-open HTTP/1.1 connection, as cheap as a client can be, so that the
//! server is what is measured.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A connection and the token it speaks with.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
    token: String,
}

impl Connection {
    pub(crate) async fn open(authority: &str, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // A connection that breaks shows in the next request.
            drop(connection.await);
        });
        Ok(Self { sender, authority: authority.to_owned(), token: token.to_owned() })
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.authority)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// Posts and insists on success.
    pub(crate) async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> anyhow::Result<Bytes> {
        let (status, body) = self.send(Method::POST, path, body.into()).await.context(path.to_owned())?;
        ensure!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    /// Gets and insists on success.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        let (status, body) = self.send(Method::GET, path, Bytes::new()).await.context(path.to_owned())?;
        ensure!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}

/// An event of ordinary size.
pub(crate) fn event(number: u64) -> serde_json::Value {
    serde_json::json!({
        "event_id": uuid::Uuid::now_v7().to_string(),
        "event_type": "agent.tool_completed",
        "event_data": {
            "turn": number / 20,
            "tool": "Bash",
            "tool_use_id": format!("toolu_{number}"),
            "tool_input": { "command": "cargo test --workspace" },
            "tool_response": "running 12 tests\ntest result: ok. 12 passed; 0 failed; 0 ignored",
            "is_error": false,
            "duration_ms": 1234,
        },
    })
}

/// A batch request of `count` such events.
pub(crate) fn batch(first: u64, count: u64) -> Bytes {
    let events: Vec<_> = (first..first + count).map(event).collect();
    Bytes::from(serde_json::json!({ "events": events }).to_string())
}
