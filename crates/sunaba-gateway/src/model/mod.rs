//! Model calls: who answers, a script or a real model, and what is recorded about it.

mod call;
mod google;
mod idle;
mod refusal;
mod scripted;
mod source;

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::sync::mpsc;

use crate::admission::Slot;
use crate::dialect::{Anthropic, Chat, Dialect, Responses};
use crate::{Caller, GatewayState};

pub(crate) use call::{Call, GONE, Letter};
pub(crate) use google::{google, google_busy, unknown_to_google};
pub(crate) use idle::idle;
pub(crate) use refusal::Refusal;

/// How many pieces of a streamed answer may wait for a slow reader.
pub(crate) const PIECES_WAITING: usize = 16;

/// A request to a model as it arrived, its body not yet read.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) caller: Option<(Caller, Slot)>,
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

impl FromRequest<GatewayState> for Asked {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &GatewayState) -> Result<Self, Infallible> {
        let (parts, body) = request.into_parts();
        let caller = parts.extensions.get::<Caller>().cloned().zip(parts.extensions.get::<Slot>().cloned());
        let query = parts.uri.query().map(str::to_owned);
        Ok(Self { caller, query, headers: parts.headers, body })
    }
}

/// `GET` and `HEAD` on the base address: clients ask whether anybody is there.
pub(crate) async fn probe() -> impl IntoResponse {
    axum::Json(json!({"status": "ok"}))
}

/// Any other route below Anthropic's base address.
pub(crate) async fn unknown_to_anthropic() -> Response {
    unknown(&Anthropic, "/v1/messages and /v1/messages/count_tokens")
}

/// Any other route below OpenAI's base address.
pub(crate) async fn unknown_to_openai() -> Response {
    unknown(&Responses, "/v1/responses, /v1/chat/completions and /v1/models")
}

fn unknown(dialect: &dyn Dialect, served: &str) -> Response {
    let what = format!("the gateway serves {served}");
    Refusal::new(StatusCode::NOT_FOUND, "not_found_error", what).response(dialect)
}

/// The answer when a sandbox has too many calls under way, in Anthropic's words.
pub(crate) fn anthropic_busy(words: String) -> Response {
    busy(&Anthropic, words)
}

/// The answer when a sandbox has too many calls under way, in OpenAI's words.
pub(crate) fn openai_busy(words: String) -> Response {
    busy(&Chat, words)
}

fn busy(dialect: &dyn Dialect, words: String) -> Response {
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", words).response(dialect)
}

/// `POST /anthropic/v1/messages`.
pub(crate) async fn messages(State(state): State<GatewayState>, asked: Asked) -> Response {
    call::answer(state, &Anthropic, "/v1/messages".into(), asked).await
}

/// `POST /openai/v1/responses`.
pub(crate) async fn responses(State(state): State<GatewayState>, asked: Asked) -> Response {
    call::answer(state, &Responses, "/v1/responses".into(), asked).await
}

/// `POST /openai/v1/chat/completions`.
pub(crate) async fn chat(State(state): State<GatewayState>, asked: Asked) -> Response {
    call::answer(state, &Chat, "/v1/chat/completions".into(), asked).await
}

/// `POST /anthropic/v1/messages/count_tokens`: no model speaks, so nothing is recorded.
pub(crate) async fn count_tokens(State(state): State<GatewayState>, asked: Asked) -> Response {
    call::count_tokens(state, &Anthropic, "/v1/messages/count_tokens".into(), asked).await
}

/// `GET /openai/v1/models`: the one that answers.
pub(crate) async fn models(State(state): State<GatewayState>, asked: Asked) -> Response {
    call::models(state, &Responses, asked).await
}

/// A body that is sent as its pieces arrive; an error ends it in a way the client notices.
pub(crate) fn body_of(mut receiver: mpsc::Receiver<std::io::Result<Bytes>>) -> Body {
    Body::from_stream(futures::stream::poll_fn(move |context| receiver.poll_recv(context)))
}
