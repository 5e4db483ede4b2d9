//! Model calls: who answers, a script or a real model, and what is recorded about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use sunaba_types::{BlobHash, Sandbox, SandboxId};
use tokio::sync::{mpsc, oneshot};

use crate::dialect::{Anthropic, Dialect};
use crate::record::{self, ModelCall};
use crate::script::{Conversation, DEFAULT_SCRIPT, Played, Reply, Script, estimate_tokens, play};
use crate::standing::{self, NoStanding};
use crate::upstream::{self, Relay};
use crate::{Caller, GatewayState};

/// How many pieces of a streamed answer may wait for a slow reader.
pub(crate) const PIECES_WAITING: usize = 16;
/// How long a piece of a scripted answer may wait for its reader.
const READER_PATIENCE: Duration = Duration::from_secs(300);

/// `GET` and `HEAD` on the base address: clients ask whether anybody is there.
pub(crate) async fn probe() -> impl IntoResponse {
    axum::Json(json!({"status": "ok"}))
}

/// Any other route below the base address.
pub(crate) async fn unknown() -> Response {
    let what = "the gateway serves /v1/messages and /v1/messages/count_tokens";
    Refusal::new(StatusCode::NOT_FOUND, "not_found_error", what).response(&Anthropic)
}

/// The answer when the sandbox has too much under way.
pub(crate) fn busy(words: String) -> Response {
    Refusal::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", words).response(&Anthropic)
}

/// `POST /anthropic/v1/messages`.
pub(crate) async fn messages(
    State(state): State<GatewayState>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let dialect: Arc<dyn Dialect> = Arc::new(Anthropic);
    let started = Instant::now();
    let body = match body {
        Ok(body) => body,
        Err(error) => return Refusal::too_large(&error).response(&*dialect),
    };
    let mut call = ModelCall { dialect: dialect.name(), ..ModelCall::default() };
    let refusal = match admit(&state, &caller, &*dialect, &body, &mut call).await {
        Ok((conversation, sandbox)) => match source_of(&state, &sandbox).await {
            Ok(Source::Script(script)) => {
                let ask = Ask { state, dialect, sandbox_id: sandbox.id, started, call };
                return ask.play(&script, &conversation).await;
            }
            Ok(Source::Upstream) => {
                let relay = Relay { state, sandbox_id: sandbox.id, record: Some(call), started, dialect };
                return upstream::proxy(relay, "/v1/messages", query, headers, body).await;
            }
            Err(refusal) => refusal,
        },
        Err(refusal) => refusal,
    };
    call.status = refusal.status.as_u16();
    call.error = Some(refusal.message.clone());
    call.duration_ms = elapsed_ms(started);
    record::model_call(&state, &caller.sandbox_id, call).await;
    refusal.response(&*dialect)
}

/// `POST /anthropic/v1/messages/count_tokens`: no model speaks, so nothing is recorded.
pub(crate) async fn count_tokens(
    State(state): State<GatewayState>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let dialect: Arc<dyn Dialect> = Arc::new(Anthropic);
    let body = match body {
        Ok(body) => body,
        Err(error) => return Refusal::too_large(&error).response(&*dialect),
    };
    let mut call = ModelCall::default();
    let admitted = admit(&state, &caller, &*dialect, &body, &mut call).await;
    let source = match &admitted {
        Ok((_, sandbox)) => source_of(&state, sandbox).await,
        Err(refusal) => return refusal.response(&*dialect),
    };
    match source {
        Ok(Source::Script(_)) => {
            axum::Json(json!({"input_tokens": estimate_tokens(body.len())})).into_response()
        }
        Ok(Source::Upstream) => {
            let relay = Relay {
                state,
                sandbox_id: caller.sandbox_id,
                record: None,
                started: Instant::now(),
                dialect,
            };
            upstream::proxy(relay, "/v1/messages/count_tokens", query, headers, body).await
        }
        Err(refusal) => refusal.response(&*dialect),
    }
}

/// An answer that no model gave.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    kind: String,
    message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, kind: &str, message: impl Into<String>) -> Self {
        Self { status, kind: kind.to_owned(), message: message.into() }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    fn too_large(error: &BytesRejection) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", error.body_text())
    }

    pub(crate) fn response(&self, dialect: &dyn Dialect) -> Response {
        (self.status, axum::Json(dialect.error(&self.kind, &self.message))).into_response()
    }
}

impl From<NoStanding> for Refusal {
    fn from(reason: NoStanding) -> Self {
        let (status, kind) = match reason {
            NoStanding::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "api_error"),
            NoStanding::Unknown | NoStanding::Ended(_) | NoStanding::Superseded => {
                (StatusCode::FORBIDDEN, "permission_error")
            }
        };
        Self::new(status, kind, reason.to_string())
    }
}

/// Reads the request and finds the sandbox, noting for the record what is learnt on the way.
async fn admit(
    state: &GatewayState,
    caller: &Caller,
    dialect: &dyn Dialect,
    body: &[u8],
    call: &mut ModelCall,
) -> Result<(Conversation, Sandbox), Refusal> {
    let conversation = dialect.read(body).map_err(Refusal::invalid)?;
    call.model.clone_from(&conversation.model);
    call.message_count = conversation.messages.len();
    let sandbox = standing::check(&*state.config.store, caller).await?;
    call.answered_by.clone_from(&sandbox.model);
    Ok((conversation, sandbox))
}

/// Who answers a sandbox's calls.
enum Source {
    Script(Script),
    Upstream,
}

async fn source_of(state: &GatewayState, sandbox: &Sandbox) -> Result<Source, Refusal> {
    let Some(name) = sandbox.model.strip_prefix("script:") else {
        return match state.config.anthropic.api_key {
            Some(_) => Ok(Source::Upstream),
            None => Err(Refusal::invalid(format!(
                "no key for the model {} is configured; set ANTHROPIC_API_KEY for the server, or run with \
                 --model script:FILE",
                sandbox.model
            ))),
        };
    };
    let bytes = if name == "default" {
        DEFAULT_SCRIPT.as_bytes().to_vec()
    } else {
        let hash = BlobHash::parse(name)
            .ok_or_else(|| Refusal::invalid(format!("script:{name} names no stored script")))?;
        let loaded = state.config.scripts.load(&hash).await;
        loaded.map_err(|error| Refusal::invalid(format!("the script {hash} cannot be read: {error}")))?
    };
    let script = Script::parse(&bytes);
    Ok(Source::Script(script.map_err(|error| Refusal::invalid(format!("the script is wrong: {error}")))?))
}

/// A call that a script answers.
struct Ask {
    state: GatewayState,
    dialect: Arc<dyn Dialect>,
    sandbox_id: SandboxId,
    started: Instant,
    call: ModelCall,
}

impl Ask {
    async fn play(mut self, script: &Script, conversation: &Conversation) -> Response {
        let owed = |turn, times| self.state.count_error(&self.sandbox_id, turn, times);
        match play(script, conversation, owed) {
            Played::Reply { turn, reply } => {
                self.call.script_turn = turn;
                self.call.status = 200;
                self.call.usage = reply.usage;
                if conversation.streamed {
                    self.stream(&conversation.model, &reply)
                } else {
                    let body = self.dialect.whole(&conversation.model, &reply);
                    self.whole(StatusCode::OK, body, reply.delay).await
                }
            }
            Played::Error { turn, error, delay } => {
                self.call.script_turn = Some(turn);
                self.call.error = Some(error.message.clone());
                let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let body = self.dialect.error(&error.kind, &error.message);
                self.whole(status, body, delay).await
            }
            Played::Failed { turn, message } => {
                tracing::warn!(sandbox_id = %self.sandbox_id, %message, "a script does not fit the request");
                self.call.script_turn = Some(turn);
                self.call.error = Some(message.clone());
                let body = self.dialect.error("invalid_request_error", &message);
                self.whole(StatusCode::BAD_REQUEST, body, Duration::ZERO).await
            }
        }
    }

    /// Answers in one piece. A task of its own, so that a client that goes away is recorded too.
    async fn whole(mut self, status: StatusCode, body: Value, delay: Duration) -> Response {
        let (mut answer, answered) = oneshot::channel();
        let tasks = self.state.tasks.clone();
        tasks.spawn(async move {
            self.call.status = status.as_u16();
            tokio::select! {
                () = tokio::time::sleep(delay) => self.call.first_byte_ms = Some(elapsed_ms(self.started)),
                () = answer.closed() => self.call.error = Some(GONE.to_owned()),
            }
            self.record().await;
            let _ = answer.send((status, axum::Json(body)).into_response());
        });
        answered.await.unwrap_or_else(|_| StatusCode::SERVICE_UNAVAILABLE.into_response())
    }

    fn stream(self, model: &str, reply: &Reply) -> Response {
        let pieces = self.dialect.stream(model, reply);
        let (sender, receiver) = mpsc::channel(PIECES_WAITING);
        let (delay, chunk_delay) = (reply.delay, reply.chunk_delay);
        let tasks = self.state.tasks.clone();
        tasks.spawn(self.send(pieces, delay, chunk_delay, sender));
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        (headers, body_of(receiver)).into_response()
    }

    async fn send(
        mut self,
        pieces: Vec<Bytes>,
        delay: Duration,
        chunk_delay: Duration,
        sender: mpsc::Sender<std::io::Result<Bytes>>,
    ) {
        for (index, piece) in pieces.into_iter().enumerate() {
            let wait = if index == 0 { delay } else { chunk_delay };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = sender.closed() => {}
            }
            if sender.send_timeout(Ok(piece), READER_PATIENCE).await.is_err() {
                self.call.error = Some(GONE.to_owned());
                break;
            }
            self.call.first_byte_ms.get_or_insert_with(|| elapsed_ms(self.started));
        }
        self.record().await;
    }

    async fn record(mut self) {
        self.call.duration_ms = elapsed_ms(self.started);
        record::model_call(&self.state, &self.sandbox_id, self.call).await;
    }
}

/// What is recorded when the client did not wait for its answer.
pub(crate) const GONE: &str = "the client went away before the answer was complete";

pub(crate) fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A body that is sent as its pieces arrive; an error ends it in a way the client notices.
pub(crate) fn body_of(mut receiver: mpsc::Receiver<std::io::Result<Bytes>>) -> Body {
    Body::from_stream(futures::stream::poll_fn(move |context| receiver.poll_recv(context)))
}
