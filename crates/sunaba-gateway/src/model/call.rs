//! One call from its arrival to its record.
//!
//! Whether the sandbox has any say is looked at before its body is read. From the
//! last byte of that on the work is done in a task of its own: a client that goes
//! away at any moment leaves no reservation unsettled and no call unrecorded.

use std::borrow::Cow;
use std::time::Instant;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::sync::oneshot;

use super::source::{Source, source_for, source_of};
use super::{Asked, Refusal, scripted};
use crate::bodies::{Bodies, Held};
use crate::budget::{Ask, Outcome, Spend};
use crate::dialect::{Detail, Dialect};
use crate::record::{self, ModelCall};
use crate::script::{Conversation, estimate_tokens};
use crate::standing;
use crate::under_way::UnderWay;
use crate::upstream;
use crate::usage::Usage;
use crate::{Caller, GatewayState};

/// What is recorded when the client did not wait for its answer.
pub(crate) const GONE: &str = "the client went away before the answer was complete";

/// Longest name of a model that is looked up.
const MODEL_NAME_MAX_BYTES: usize = 256;

/// A call under way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) state: GatewayState,
    pub(crate) caller: Caller,
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) record: ModelCall,
    /// What its address says of the request.
    named: Option<Named>,
    /// What is reserved for it.
    pub(crate) spend: Option<Spend>,
    pub(crate) started: Instant,
    /// Until it is recorded.
    _under_way: UnderWay,
}

/// Where a call goes, and what goes with it.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) path: Cow<'static, str>,
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// An address that a call is made to.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) path: Cow<'static, str>,
    pub(super) named: Option<Named>,
}

/// What other dialects say in the request, where it stands in the address.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) model: String,
    pub(super) streamed: bool,
}

impl From<&'static str> for Address {
    fn from(path: &'static str) -> Self {
        Self { path: path.into(), named: None }
    }
}

/// Answers a call.
pub(super) async fn answer(
    state: GatewayState,
    dialect: &'static dyn Dialect,
    to: Address,
    asked: Asked,
) -> Response {
    let Some((caller, slot)) = asked.caller else { return nobody().response(dialect) };
    let record = ModelCall { dialect: dialect.name().to_owned(), ..ModelCall::default() };
    let under_way = state.calls.begin(&caller.sandbox_id);
    let started = Instant::now();
    let Address { path, named } = to;
    let mut call =
        Call { state, caller, dialect, record, named, spend: None, started, _under_way: under_way };
    let (head, answered) = oneshot::channel();
    let tasks = call.state.tasks.clone();
    // Whether it has any say is asked before a byte of the body is taken.
    match call.source().await {
        Ok(source) => {
            let (body, held) = match call.state.bodies.collect(&slot, asked.body).await {
                Ok(collected) => collected,
                Err(refusal) => return refusal.response(dialect),
            };
            let letter = Letter { path, query: asked.query, headers: asked.headers, body };
            call.started = Instant::now();
            tasks.spawn(call.run(source, letter, held, head));
        }
        Err(refusal) => drop(tasks.spawn(async move { call.refuse(&refusal, head).await })),
    }
    answered.await.unwrap_or_else(|_| Refusal::unavailable().response(dialect))
}

fn nobody() -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, "authentication_error", "no sandbox is asking")
}

/// Answers how many tokens a request has.
pub(super) async fn count_tokens(
    state: GatewayState,
    dialect: &'static dyn Dialect,
    path: Cow<'static, str>,
    asked: Asked,
) -> Response {
    counted(state, dialect, path, asked).await.unwrap_or_else(|refusal| refusal.response(dialect))
}

async fn counted(
    state: GatewayState,
    dialect: &'static dyn Dialect,
    path: Cow<'static, str>,
    asked: Asked,
) -> Result<Response, Refusal> {
    let (caller, slot) = asked.caller.ok_or_else(nobody)?;
    let (_, source) = source_of(&state, &caller, dialect).await?;
    let (body, held) = state.bodies.collect(&slot, asked.body).await?;
    let size = body.len();
    let letter = Letter { path, query: asked.query, headers: asked.headers, body: body.clone() };
    Bodies::read(&state, size, move || {
        dialect.read(&body, Detail::Outline).map(drop).map_err(Refusal::invalid)
    })
    .await?;
    let answer = match source {
        Source::Script(_) => axum::Json(dialect.token_count(estimate_tokens(size))).into_response(),
        Source::Upstream(key) => upstream::count_tokens(&state, dialect, &key, letter).await,
    };
    drop(held);
    Ok(answer)
}

/// Lists the models that answer: the script under the name it was started with, or the vendor's.
pub(super) async fn models(state: GatewayState, dialect: &'static dyn Dialect, asked: Asked) -> Response {
    let Some((caller, _slot)) = asked.caller else { return nobody().response(dialect) };
    match source_of(&state, &caller, dialect).await {
        Ok((sandbox, Source::Script(_))) => {
            let model = json!({"id": sandbox.model, "object": "model", "created": 0, "owned_by": "sunaba"});
            axum::Json(json!({"object": "list", "data": [model]})).into_response()
        }
        Ok((_, Source::Upstream(key))) => {
            let (path, body) = ("/v1/models".into(), Bytes::new());
            let letter = Letter { path, query: asked.query, headers: asked.headers, body };
            upstream::pass(&state, dialect, &key, http::Method::GET, letter).await
        }
        Err(refusal) => refusal.response(dialect),
    }
}

impl Call {
    /// Finds who answers, noting it for the record.
    async fn source(&mut self) -> Result<Source, Refusal> {
        let sandbox = standing::check(&*self.state.config.store, &self.caller).await?;
        self.record.answered_by.clone_from(&sandbox.model);
        source_for(&self.state, &sandbox, self.dialect).await
    }

    async fn run(mut self, source: Source, letter: Letter, held: Held, head: oneshot::Sender<Response>) {
        let detail = if matches!(source, Source::Script(_)) { Detail::Whole } else { Detail::Outline };
        let conversation = match self.read(&letter.body, detail).await {
            Ok(conversation) => conversation,
            Err(refusal) => return self.refuse(&refusal, head).await,
        };
        match source {
            Source::Script(script) => {
                drop(letter);
                scripted::answer(self, &script, &conversation, head).await;
                drop(held);
            }
            Source::Upstream(key) => upstream::relay(self, conversation, &key, letter, held, head).await,
        }
    }

    /// Reads the request, noting for the record what is learnt on the way.
    async fn read(&mut self, body: &Bytes, detail: Detail) -> Result<Conversation, Refusal> {
        let (dialect, body, size) = (self.dialect, body.clone(), body.len());
        let read = move || dialect.read(&body, detail).map_err(Refusal::invalid);
        let mut conversation = Bodies::read(&self.state, size, read).await?;
        if let Some(named) = self.named.take() {
            (conversation.model, conversation.streamed) = (named.model, named.streamed);
        }
        if conversation.model.len() > MODEL_NAME_MAX_BYTES {
            return Err(Refusal::invalid("model: no model has so long a name"));
        }
        self.record.model.clone_from(&conversation.model);
        self.record.message_count = conversation.message_count;
        Ok(conversation)
    }

    /// Scripts cost what the table says, usually nothing; their calls are counted all the same.
    pub(super) async fn reserve_scripted(&mut self, usage: &Usage) -> Result<(), Refusal> {
        let price = self.state.config.prices.of_scripts();
        let ask = Ask {
            state: &self.state,
            caller: &self.caller,
            dialect: self.dialect.name(),
            model: &self.record.model,
            price: &price,
        };
        let spend = Spend::reserve_exactly(&ask, price.cost(usage)).await?;
        self.spend = Some(spend);
        Ok(())
    }

    /// Answers with a refusal.
    pub(crate) async fn refuse(mut self, refusal: &Refusal, head: oneshot::Sender<Response>) {
        self.record.status = refusal.status.as_u16();
        self.record.error = Some(refusal.message.clone());
        let response = refusal.response(self.dialect);
        self.finish(Outcome::NotSent).await;
        let _ = head.send(response);
    }

    pub(crate) fn note_first_byte(&mut self) {
        self.record.first_byte_ms.get_or_insert_with(|| elapsed_ms(self.started));
    }

    /// Settles and records the call.
    pub(crate) async fn finish(mut self, outcome: Outcome) {
        self.settle(&outcome).await;
        self.write_down().await;
    }

    /// Replaces what is reserved by what the call cost.
    pub(crate) async fn settle(&mut self, outcome: &Outcome) {
        if let Some(spend) = self.spend.take() {
            self.record.settled = spend.settle(&self.state, outcome).await;
        }
    }

    /// Records the call.
    pub(crate) async fn write_down(mut self) {
        self.record.duration_ms = elapsed_ms(self.started);
        record::model_call(&self.state, &self.caller.sandbox_id, self.record).await;
    }
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
