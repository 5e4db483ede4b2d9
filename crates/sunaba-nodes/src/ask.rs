//! Asking another node.
//!
//! A node that stops for a moment is the ordinary case (a new version, one node after the other): whoever
//! can wait asks [`Nodes::patiently`], which repeats what may pass.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sunaba_types::{BlobHash, NodeId};
use tokio::time::Instant;

use crate::wire::{NODE_HEADER, PREFIX, Problem};
use crate::{Error, Nodes};

/// Between two tries.
pub const RETRY: Duration = Duration::from_millis(250);
/// How long a blob of the largest size may take between two nodes, over a slow line.
const BLOB_PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How long a node may take to say that it is there.
const REACH_PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer that is kept whole.
const ANSWER_MAX_BYTES: usize = 80 * 1024 * 1024;

impl Nodes {
    /// Where a node is reached now.
    pub async fn address_of(&self, node: &NodeId) -> Result<String, Error> {
        let found = self.find(node).await?.ok_or_else(|| Error::Gone(node.clone()))?;
        let away = |why: &str| Error::Away { node: node.clone(), why: why.to_owned() };
        match found {
            lost if lost.lost_at.is_some() => Err(Error::Gone(node.clone())),
            left if left.left_at.is_some() => Err(away("it was stopped")),
            up if up.is_up() => Ok(up.report.address.trim_end_matches('/').to_owned()),
            silent => Err(away(&format!("it was last heard {} s ago", silent.silent_for.as_secs()))),
        }
    }

    /// A request to a node, opened with the nodes' token; `path` is below [`PREFIX`].
    pub async fn ask(
        &self,
        node: &NodeId,
        method: Method,
        path: &str,
    ) -> Result<reqwest::RequestBuilder, Error> {
        let address = self.address_of(node).await?;
        let request = self.0.http.request(method, format!("{address}{PREFIX}{path}"));
        let request = request.header(NODE_HEADER, node.as_str());
        Ok(request.bearer_auth(self.0.token.expose_secret()))
    }

    /// Whether a node answers now.
    pub async fn reach(&self, node: &NodeId) -> Result<(), Error> {
        let request = self.ask(node, Method::GET, "/node").await?.timeout(REACH_PATIENCE);
        self.send(node, request).await.map(drop)
    }

    /// Sends a request; an answer that is an error becomes one here.
    pub async fn send(
        &self,
        node: &NodeId,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, Error> {
        match request.send().await {
            Ok(answer) if answer.status().is_success() => Ok(answer),
            Ok(answer) => Err(refusal(answer).await),
            Err(error) => {
                self.doubt_seen();
                Err(Error::Away { node: node.clone(), why: words(&error) })
            }
        }
    }

    /// What a node gives at this path, whole.
    pub async fn get_bytes(&self, node: &NodeId, path: &str, within: Duration) -> Result<Bytes, Error> {
        let request = self.ask(node, Method::GET, path).await?.timeout(within);
        let mut answer = self.send(node, request).await?;
        let mut kept = Vec::new();
        let away = |why: String| Error::Away { node: node.clone(), why };
        while let Some(piece) = answer.chunk().await.map_err(|error| away(words(&error)))? {
            if kept.len() + piece.len() > ANSWER_MAX_BYTES {
                return Err(away("its answer is too large".to_owned()));
            }
            kept.extend_from_slice(&piece);
        }
        Ok(kept.into())
    }

    /// A blob that a node has, as it comes; whoever reads it bounds it and compares its hash.
    pub async fn open_blob(&self, node: &NodeId, hash: &BlobHash) -> Result<reqwest::Response, Error> {
        let request = self.ask(node, Method::GET, &format!("/blobs/{hash}")).await?;
        self.send(node, request.timeout(BLOB_PATIENCE)).await
    }

    /// Asks a node to do something and reads its answer.
    pub async fn post<T: DeserializeOwned>(
        &self,
        node: &NodeId,
        path: &str,
        body: &impl Serialize,
        within: Duration,
    ) -> Result<T, Error> {
        let request = self.ask(node, Method::POST, path).await?.timeout(within).json(body);
        let answer = self.send(node, request).await?;
        let read = answer.json().await;
        read.map_err(|error| Error::Away { node: node.clone(), why: words(&error) })
    }
}

/// Repeats `call` while what stopped it may pass, for at most `within`.
pub(crate) async fn patiently<T, F>(within: Duration, mut call: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let until = Instant::now() + within;
    let mut said = false;
    loop {
        match call().await {
            Err(error) if error.is_passing() && Instant::now() < until => {
                if !said {
                    tracing::warn!(%error, "waiting for another node");
                    said = true;
                }
                tokio::time::sleep(RETRY).await;
            }
            answer => return answer,
        }
    }
}

impl Nodes {
    /// Repeats `call` while what stopped it may pass, for at most `within`.
    pub async fn patiently<T, F>(&self, within: Duration, call: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        patiently(within, call).await
    }
}

async fn refusal(answer: reqwest::Response) -> Error {
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap_or_default();
    let problem: Problem = serde_json::from_str(&text).unwrap_or_default();
    let detail = match problem.detail {
        words if !words.is_empty() => words,
        _ => format!("another node answered with the number {status}"),
    };
    Error::Refused { status, code: problem.code, detail }
}

/// An error of the connection with its causes, without the address: it may hold what is nobody's business.
fn words(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    if text.is_empty() { "no answer".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn what_may_pass_is_repeated_and_a_refusal_is_not() {
        let calls = Cell::new(0);
        let away = || Error::Away { node: NodeId::generate(), why: "stopped".to_owned() };
        let answer = patiently(Duration::from_secs(5), || {
            calls.set(calls.get() + 1);
            let first = calls.get() < 2;
            async move { if first { Err(away()) } else { Ok(7) } }
        });
        assert_eq!(answer.await.unwrap(), 7);
        let never = patiently(Duration::ZERO, || async { Err::<(), _>(away()) }).await;
        assert!(matches!(never, Err(Error::Away { .. })));
        let tries = Cell::new(0);
        let refused = patiently(Duration::from_secs(5), || {
            tries.set(tries.get() + 1);
            async { Err::<(), _>(Error::Refused { status: 409, code: "no".into(), detail: "no".into() }) }
        });
        assert!(matches!(refused.await, Err(Error::Refused { status: 409, .. })));
        assert_eq!(tries.get(), 1);
    }
}
