//! The server's API as a client uses it, with every answer checked.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

/// A plain HTTP client. The TLS provider has to be named even where none is used.
pub(crate) fn http_client() -> reqwest::Client {
    // A second test in this process finds it installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().build().expect("a client without special wishes can be made")
}

/// A client with a token.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) client: reqwest::Client,
    pub(crate) url: String,
    pub(crate) token: String,
}

impl Api {
    pub(crate) fn new(url: String, token: String) -> Self {
        Self { client: http_client(), url, token }
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let request = self.client.get(format!("{}{path}", self.url));
        self.answer(path, request).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request = self.client.post(format!("{}{path}", self.url)).json(body);
        self.answer(path, request).await
    }

    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        let request = self.client.delete(format!("{}{path}", self.url));
        self.answer(path, request).await
    }

    pub(crate) async fn post_bytes(
        &self,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> anyhow::Result<Value> {
        let request = self
            .client
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/octet-stream")
            .body(body);
        self.answer(path, request).await
    }

    async fn answer(&self, path: &str, request: reqwest::RequestBuilder) -> anyhow::Result<Value> {
        let answer = request.bearer_auth(&self.token).timeout(Duration::from_secs(20)).send().await?;
        let status = answer.status();
        let body = answer.text().await?;
        ensure!(status.is_success(), "{path}: {status} {body}");
        serde_json::from_str(&body).with_context(|| format!("{path}: {body}"))
    }

    /// The whole log of a sandbox, oldest first, checked for gaps and for its chain.
    pub(crate) async fn whole_log(&self, sandbox: &str) -> anyhow::Result<Vec<Value>> {
        let mut log: Vec<Value> = Vec::new();
        let mut before = String::new();
        loop {
            let page = self.get(&format!("/api/v1/sandboxes/{sandbox}/events?limit=500{before}")).await?;
            let events = page["events"].as_array().context("events")?;
            let Some(last) = events.last() else { break };
            before = format!("&before_seq={}", last["seq"]);
            log.extend(events.iter().cloned());
        }
        log.reverse();
        for (index, event) in log.iter().enumerate() {
            ensure!(event["seq"].as_u64() == Some(index as u64 + 1), "{sandbox}: a gap before {event}");
        }
        let verdict = self.get(&format!("/api/v1/sandboxes/{sandbox}/verify")).await?;
        ensure!(verdict["ok"] == true, "{sandbox}: {verdict}");
        Ok(log)
    }
}
