//! One request, one answer: adds the token, reads problems, tells "no" from "nobody there".

use std::time::Duration;

use reqwest::{Method, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::{Failure, Outcome, Problem};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an ordinary answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the question "are you there?" may take.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Speaks to one server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<SecretString>,
}

impl Client {
    /// A client for the server at this address; nothing is sent yet.
    pub(crate) fn new(base: &str, token: Option<SecretString>) -> Outcome<Self> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(concat!("sunaba/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Failure::Other(error.into()))?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), token })
    }

    /// The server's address.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Fails unless a server answers at the address.
    pub(crate) async fn check_alive(&self) -> Outcome<()> {
        let sent = self.http.get(format!("{}/healthz", self.base)).timeout(ALIVE_TIMEOUT).send().await;
        sent.map(|_| ()).map_err(|error| self.unreachable(&error))
    }

    /// Whether the server says that all its parts are ready; the text is its answer.
    pub(crate) async fn readiness(&self) -> Result<(), String> {
        let sent = self.http.get(format!("{}/readyz", self.base)).timeout(ALIVE_TIMEOUT).send().await;
        let response = sent.map_err(|error| root_cause(&error))?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(response.text().await.unwrap_or_default())
    }

    /// GET, answered with JSON.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        read_json(self.exchange(Method::GET, path, None::<&()>).await?).await
    }

    /// GET, answered with text.
    pub(crate) async fn get_text(&self, path: &str) -> Outcome<String> {
        let response = self.exchange(Method::GET, path, None::<&()>).await?;
        response.text().await.map_err(|error| self.unreachable(&error))
    }

    /// GET, answered with bytes.
    pub(crate) async fn get_bytes(&self, path: &str) -> Outcome<Vec<u8>> {
        let response = self.exchange(Method::GET, path, None::<&()>).await?;
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        Ok(bytes.to_vec())
    }

    /// POST of JSON, answered with JSON.
    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Outcome<T> {
        read_json(self.exchange(Method::POST, path, Some(body)).await?).await
    }

    /// PATCH of JSON, answered with JSON.
    pub(crate) async fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Outcome<T> {
        read_json(self.exchange(Method::PATCH, path, Some(body)).await?).await
    }

    /// PUT of JSON, answered with JSON.
    pub(crate) async fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Outcome<T> {
        read_json(self.exchange(Method::PUT, path, Some(body)).await?).await
    }

    /// DELETE, answered with nothing.
    pub(crate) async fn forget(&self, path: &str) -> Outcome<()> {
        self.exchange(Method::DELETE, path, None::<&()>).await.map(drop)
    }

    /// DELETE, answered with JSON.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        read_json(self.exchange(Method::DELETE, path, None::<&()>).await?).await
    }

    /// POST of bytes, answered with JSON.
    pub(crate) async fn post_bytes<T: DeserializeOwned>(&self, path: &str, body: Vec<u8>) -> Outcome<T> {
        let request = self
            .request(Method::POST, path)
            .header("content-type", "application/octet-stream")
            .timeout(ANSWER_TIMEOUT)
            .body(body);
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        read_json(refuse_problems(response).await?).await
    }

    /// Opens a stream of server-sent events; bounded only by the reader's patience.
    pub(crate) async fn open_stream(&self, path: &str) -> Outcome<Response> {
        let request = self.request(Method::GET, path).header("accept", "text/event-stream");
        let opened = tokio::time::timeout(ANSWER_TIMEOUT, request.send())
            .await
            .map_err(|_| Failure::Unreachable(format!("{} does not answer", self.base)))?;
        refuse_problems(opened.map_err(|error| self.unreachable(&error))?).await
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Outcome<Response> {
        let mut request = self.request(method, path).timeout(ANSWER_TIMEOUT);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        refuse_problems(response).await
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        Failure::Unreachable(format!(
            "the server at {} cannot be reached ({}); is it running? `sunaba serve` starts it",
            self.base,
            root_cause(error)
        ))
    }
}

/// The last word of a chain of causes; the outer ones repeat the address.
fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

async fn refuse_problems(response: Response) -> Outcome<Response> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.text().await.unwrap_or_default();
    Err(Failure::Refused(Box::new(problem(status, &body))))
}

fn problem(status: StatusCode, body: &str) -> Problem {
    let mut problem: Problem = serde_json::from_str(body).unwrap_or_default();
    problem.status = status.as_u16();
    if problem.title.is_empty() {
        problem.title = status.canonical_reason().unwrap_or("the server refused").to_owned();
    }
    problem
}

async fn read_json<T: DeserializeOwned>(response: Response) -> Outcome<T> {
    let body = response.bytes().await.map_err(|error| Failure::Unreachable(root_cause(&error)))?;
    serde_json::from_slice(&body)
        .map_err(|error| Failure::other(format!("the server's answer cannot be read: {error}")))
}
