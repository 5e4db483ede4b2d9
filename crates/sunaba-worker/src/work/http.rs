//! A small HTTP client: one connection, one request at a time.
//!
//! Each task of the worker has its own, so a slow route slows nobody else. Every
//! request here is harmless to repeat (events carry ids), so one that met a
//! connection the server had just closed is sent once more.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the address {0:?} cannot be called")]
    Address(String),
    #[error("no connection: {0}")]
    Connect(#[source] std::io::Error),
    #[error("the connection broke: {0}")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl Answer {
    /// The stable code of an error answer.
    pub(super) fn code(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Problem {
            code: String,
        }
        serde_json::from_slice::<Problem>(&self.body).ok().map(|problem| problem.code)
    }

    /// Whether this sandbox has nothing more to say: its attempt was superseded, it is over or its log is full.
    pub(super) fn says_stop(&self) -> bool {
        match self.status {
            StatusCode::CONFLICT => {
                matches!(self.code().as_deref(), Some("attempt_superseded" | "sandbox_ended"))
            }
            StatusCode::INSUFFICIENT_STORAGE => self.code().as_deref() == Some("log_full"),
            _ => false,
        }
    }
}

/// A connection to the server.
pub(super) struct Client {
    authority: String,
    prefix: String,
    bearer: HeaderValue,
    answer_max_bytes: usize,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn new(base_url: &str, token: &str) -> Result<Self, Error> {
        let wrong = || Error::Address(base_url.to_owned());
        let uri: Uri = base_url.parse().map_err(|_| wrong())?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong());
        }
        let authority = uri.authority().ok_or_else(wrong)?;
        let authority = match authority.port_u16() {
            Some(_) => authority.to_string(),
            None => format!("{authority}:80"),
        };
        let mut bearer = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| wrong())?;
        bearer.set_sensitive(true);
        Ok(Self {
            authority,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            bearer,
            answer_max_bytes: ANSWER_MAX_BYTES,
            sender: None,
        })
    }

    pub(super) async fn get(&mut self, path: &str, patience: Duration) -> Result<Answer, Error> {
        self.send(Method::GET, path, Bytes::new(), patience).await
    }

    pub(super) async fn put(
        &mut self,
        path: &str,
        bytes: Bytes,
        patience: Duration,
    ) -> Result<Answer, Error> {
        self.send(Method::PUT, path, bytes, patience).await
    }

    /// Takes longer answers than usual from now on.
    #[must_use]
    pub(super) fn with_answers_of(mut self, max_bytes: usize) -> Self {
        self.answer_max_bytes = max_bytes;
        self
    }

    pub(super) async fn post(
        &mut self,
        path: &str,
        json: Bytes,
        patience: Duration,
    ) -> Result<Answer, Error> {
        self.send(Method::POST, path, json, patience).await
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        patience: Duration,
    ) -> Result<Answer, Error> {
        let result = timeout(patience, self.exchange(method, path, body)).await;
        if !matches!(result, Ok(Ok(_))) {
            // What may still come on this connection belongs to a request nobody waits for.
            self.sender = None;
        }
        result.unwrap_or(Err(Error::Timeout(patience)))
    }

    async fn exchange(&mut self, method: Method, path: &str, body: Bytes) -> Result<Answer, Error> {
        if let Some(sender) = self.sender.take() {
            let again = self.request(&method, path, body.clone())?;
            if let Ok(answer) = self.over(sender, again).await {
                return Ok(answer);
            }
        }
        let request = self.request(&method, path, body)?;
        let sender = self.connect().await?;
        self.over(sender, request).await
    }

    async fn over(
        &mut self,
        mut sender: SendRequest<Full<Bytes>>,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer, Error> {
        sender.ready().await.map_err(broken)?;
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), self.answer_max_bytes)
            .collect()
            .await
            .map_err(Error::Broken)?
            .to_bytes();
        self.sender = Some(sender);
        Ok(Answer { status, body })
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Error> {
        let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.authority))
            .await
            .map_err(|_| Error::Timeout(CONNECT_TIMEOUT))?
            .map_err(Error::Connect)?;
        let _ = stream.set_nodelay(true);
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // Ends when the sender is dropped or the connection breaks.
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, method: &Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, Error> {
        Request::builder()
            .method(method.clone())
            .uri(format!("{}{path}", self.prefix))
            .header(header::HOST, &self.authority)
            .header(header::AUTHORIZATION, self.bearer.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| Error::Broken(Box::new(error)))
    }
}

fn broken(error: hyper::Error) -> Error {
    Error::Broken(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_final_says_stop() {
        for (status, code, expected) in [
            (409, "attempt_superseded", true),
            (409, "sandbox_ended", true),
            (409, "event_id_conflict", false),
            (507, "log_full", true),
            (507, "disk_full", false),
            (503, "log_full", false),
        ] {
            let body = Bytes::from(format!(r#"{{"code":"{code}"}}"#));
            let answer = Answer { status: StatusCode::from_u16(status).unwrap(), body };
            assert_eq!(answer.says_stop(), expected, "{status} {code}");
        }
    }
}
