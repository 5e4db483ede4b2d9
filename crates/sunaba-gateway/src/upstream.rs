//! Passes a call on to a real model, with the real key, and its answer back as it comes.
//!
//! Nothing is buffered. Of the request's headers only those that the vendor
//! documents are passed on; the sandbox's token is not among them.

use std::sync::Arc;
use std::time::Instant;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use secrecy::ExposeSecret;
use sunaba_types::SandboxId;
use tokio::sync::{mpsc, oneshot};

use crate::GatewayState;
use crate::dialect::Dialect;
use crate::model::{GONE, PIECES_WAITING, Refusal, body_of, elapsed_ms};
use crate::record::{self, ModelCall};
use crate::usage::Meter;

/// One call on its way to a real model and back.
pub(crate) struct Relay {
    pub(crate) state: GatewayState,
    pub(crate) sandbox_id: SandboxId,
    /// What is recorded at the end; nothing for calls in which no model speaks.
    pub(crate) record: Option<ModelCall>,
    pub(crate) started: Instant,
    pub(crate) dialect: Arc<dyn Dialect>,
}

/// Sends the request on. A task of its own does the work, so that a client that goes away is recorded.
pub(crate) async fn proxy(
    relay: Relay,
    path: &str,
    query: Option<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let upstream = &relay.state.config.anthropic;
    let mut url = format!("{}{path}", upstream.base_url.trim_end_matches('/'));
    if let Some(query) = query {
        url.push('?');
        url.push_str(&query);
    }
    let key = upstream.api_key.as_ref().map(|key| key.expose_secret().to_owned()).unwrap_or_default();
    let request =
        relay.state.client.post(url).headers(passed_on(&headers)).header("x-api-key", key).body(body);
    let (head, answered) = oneshot::channel();
    let tasks = relay.state.tasks.clone();
    tasks.spawn(relay.run(request, head));
    answered.await.unwrap_or_else(|_| StatusCode::BAD_GATEWAY.into_response())
}

impl Relay {
    async fn run(mut self, request: reqwest::RequestBuilder, mut head: oneshot::Sender<Response>) {
        let sent = tokio::select! {
            sent = request.send() => Some(sent),
            () = head.closed() => None,
        };
        match sent {
            Some(Ok(answer)) => self.relay(answer, head).await,
            Some(Err(error)) => {
                let error = error.without_url();
                tracing::warn!(sandbox_id = %self.sandbox_id, %error, "the model's provider cannot be reached");
                let message = format!("the model's provider cannot be reached: {error}");
                self.note(StatusCode::BAD_GATEWAY, Some(message.clone()));
                let refusal = Refusal::new(StatusCode::BAD_GATEWAY, "api_error", message);
                let response = refusal.response(&*self.dialect);
                self.finish().await;
                let _ = head.send(response);
            }
            None => {
                self.note(StatusCode::BAD_GATEWAY, Some(GONE.to_owned()));
                self.finish().await;
            }
        }
    }

    async fn relay(mut self, mut answer: reqwest::Response, head: oneshot::Sender<Response>) {
        let status = answer.status();
        let content_type = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let streamed = content_type.is_some_and(|value| value.starts_with("text/event-stream"));
        let mut meter = Meter::new(streamed);
        let (sender, receiver) = mpsc::channel(PIECES_WAITING);
        let mut response = Response::new(body_of(receiver));
        *response.status_mut() = status;
        *response.headers_mut() = passed_back(answer.headers());
        let mut error = head.send(response).is_err().then(|| GONE.to_owned());
        while error.is_none() {
            let piece = tokio::select! {
                piece = answer.chunk() => piece,
                () = sender.closed() => { error = Some(GONE.to_owned()); continue; }
            };
            match piece {
                Ok(Some(bytes)) => {
                    if let Some(record) = &mut self.record {
                        record.first_byte_ms.get_or_insert_with(|| elapsed_ms(self.started));
                    }
                    meter.push(&bytes);
                    if sender.send(Ok(bytes)).await.is_err() {
                        error = Some(GONE.to_owned());
                    }
                }
                Ok(None) => break,
                Err(broken) => {
                    let broken = broken.without_url().to_string();
                    // The client must see that the answer is not whole.
                    let _ = sender.send(Err(std::io::Error::other(broken.clone()))).await;
                    error = Some(format!("the answer broke off: {broken}"));
                }
            }
        }
        drop(sender);
        let (usage, said) = meter.finish();
        if let Some(record) = &mut self.record {
            record.usage = usage;
        }
        self.note(status, error.or(said));
        self.finish().await;
    }

    fn note(&mut self, status: StatusCode, error: Option<String>) {
        if let Some(record) = &mut self.record {
            record.status = status.as_u16();
            record.error = error;
            record.duration_ms = elapsed_ms(self.started);
        }
    }

    async fn finish(self) {
        if let Some(record) = self.record {
            record::model_call(&self.state, &self.sandbox_id, record).await;
        }
    }
}

/// The request's headers that concern the model.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    only(headers, |name| matches!(name.as_str(), "content-type" | "accept" | "user-agent") || vendor(name))
}

/// The answer's headers that concern the client.
fn passed_back(headers: &HeaderMap) -> HeaderMap {
    only(headers, |name| {
        matches!(name.as_str(), "content-type" | "cache-control" | "retry-after" | "request-id")
            || vendor(name)
    })
}

fn vendor(name: &HeaderName) -> bool {
    name.as_str().starts_with("anthropic-")
}

fn only(headers: &HeaderMap, wanted: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| wanted(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
