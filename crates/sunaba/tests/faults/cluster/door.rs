//! Both servers as a client sees them: it asks either, and believes only whole answers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rand::RngExt;
use rand::rngs::StdRng;
use reqwest::Method;
use serde_json::Value;

use crate::api::{Api, http_client};

/// How long an answer may take; a long poll is shorter.
const ANSWER: Duration = Duration::from_secs(10);
/// How long something is asked again before that is a failure of its own.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

/// A client of both servers.
#[derive(Clone)]
pub(super) struct Door {
    client: reqwest::Client,
    pub(super) urls: Arc<[String; 2]>,
    pub(super) token: String,
}

/// A request, and who asks.
#[derive(Clone)]
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) body: Option<&'a Value>,
    /// Whose token; the administrator's if none.
    pub(super) token: Option<&'a str>,
}

impl<'a> Ask<'a> {
    pub(super) fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, body: None, token: None }
    }

    pub(super) fn post(path: &'a str, body: &'a Value) -> Self {
        Self { method: Method::POST, path, body: Some(body), token: None }
    }

    pub(super) fn with_token(self, token: &'a str) -> Self {
        Self { token: Some(token), ..self }
    }
}

impl Door {
    pub(super) fn new(urls: [String; 2], token: String) -> Self {
        Self { client: http_client(), urls: Arc::new(urls), token }
    }

    /// A client of one of the servers.
    pub(super) fn api(&self, node: usize) -> Api {
        Api { client: self.client.clone(), url: self.urls[node].clone(), token: self.token.clone() }
    }

    /// Asks one server once: status and body, or nothing if no whole answer came.
    pub(super) async fn ask(&self, node: usize, ask: Ask<'_>) -> Option<(u16, Value)> {
        let mut request = self.client.request(ask.method, format!("{}{}", self.urls[node], ask.path));
        request = request.bearer_auth(ask.token.unwrap_or(&self.token)).timeout(ANSWER);
        if let Some(body) = ask.body {
            request = request.json(body);
        }
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        // An answer that was cut off after its status line says nothing.
        Some((status, answer.json().await.ok()?))
    }

    /// Asks either server again and again until one says yes; gives its answer and how often it was asked.
    pub(super) async fn insist(&self, ask: Ask<'_>, random: &mut StdRng) -> anyhow::Result<(Value, u64)> {
        let began = tokio::time::Instant::now();
        let mut asked = 0;
        let mut last = None;
        while began.elapsed() < PATIENCE {
            asked += 1;
            match self.ask(random.random_range(0..2), ask.clone()).await {
                Some((200 | 201, body)) => return Ok((body, asked)),
                // What a server says that cannot reach its store, or another node.
                Some((503, body)) => last = Some(body),
                None => {}
                Some((status, body)) => bail!("{}: {status} {body}", ask.path),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(anyhow::anyhow!("{last:?}")).with_context(|| format!("{}: no yes within {PATIENCE:?}", ask.path))
    }
}
