//! One call from its arrival to its record.
//!
//! Whether the sandbox has any say is looked at before its body is read. From the
//! last byte of that on the work is done in a task of its own: a client that goes
//! away at any moment leaves no reservation unsettled and no call unrecorded.

use std::io;
use std::time::Instant;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use secrecy::SecretString;
use serde_json::json;
use sunaba_types::{BlobHash, Sandbox};
use tokio::sync::oneshot;

use super::{Asked, Refusal, scripted};
use crate::bodies::{Bodies, Held};
use crate::budget::{Ask, Outcome, Spend};
use crate::dialect::{Detail, Dialect, Vendor};
use crate::record::{self, ModelCall};
use crate::script::{Conversation, DEFAULT_SCRIPT, Script, estimate_tokens};
use crate::standing;
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
    /// What is reserved for it.
    pub(crate) spend: Option<Spend>,
    pub(crate) started: Instant,
}

/// Where a call goes, and what goes with it.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) path: &'static str,
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Answers a call.
pub(super) async fn answer(
    state: GatewayState,
    dialect: &'static dyn Dialect,
    path: &'static str,
    asked: Asked,
) -> Response {
    let Some((caller, slot)) = asked.caller else { return nobody().response(dialect) };
    let record = ModelCall { dialect: dialect.name().to_owned(), ..ModelCall::default() };
    let mut call = Call { state, caller, dialect, record, spend: None, started: Instant::now() };
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
    asked: Asked,
) -> Response {
    counted(state, dialect, asked).await.unwrap_or_else(|refusal| refusal.response(dialect))
}

async fn counted(
    state: GatewayState,
    dialect: &'static dyn Dialect,
    asked: Asked,
) -> Result<Response, Refusal> {
    let (caller, slot) = asked.caller.ok_or_else(nobody)?;
    let (_, source) = source_of(&state, &caller, dialect).await?;
    let (body, held) = state.bodies.collect(&slot, asked.body).await?;
    let (path, size) = ("/v1/messages/count_tokens", body.len());
    let letter = Letter { path, query: asked.query, headers: asked.headers, body: body.clone() };
    Bodies::read(&state, size, move || {
        dialect.read(&body, Detail::Outline).map(drop).map_err(Refusal::invalid)
    })
    .await?;
    let answer = match source {
        Source::Script(_) => axum::Json(json!({"input_tokens": estimate_tokens(size)})).into_response(),
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
            let (path, body) = ("/v1/models", Bytes::new());
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
        let conversation = Bodies::read(&self.state, size, read).await?;
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

/// Who answers a sandbox's calls.
enum Source {
    Script(Script),
    /// A real model, with this key.
    Upstream(SecretString),
}

async fn source_of(
    state: &GatewayState,
    caller: &Caller,
    dialect: &dyn Dialect,
) -> Result<(Sandbox, Source), Refusal> {
    let sandbox = standing::check(&*state.config.store, caller).await?;
    let source = source_for(state, &sandbox, dialect).await?;
    Ok((sandbox, source))
}

async fn source_for(
    state: &GatewayState,
    sandbox: &Sandbox,
    dialect: &dyn Dialect,
) -> Result<Source, Refusal> {
    let Some(name) = sandbox.model.strip_prefix("script:") else {
        let key = find_key(state, sandbox, dialect.vendor()).await?;
        return key.map(Source::Upstream).ok_or_else(|| {
            let name = dialect.vendor().key_name();
            Refusal::invalid(format!(
                "no key for the model {} is configured; set {name} for the server or as the project's secret, \
                 or run with --model script:FILE",
                sandbox.model
            ))
        });
    };
    let bytes = if name == "default" {
        DEFAULT_SCRIPT.as_bytes().to_vec()
    } else {
        let hash = BlobHash::parse(name)
            .ok_or_else(|| Refusal::invalid(format!("script:{name} names no stored script")))?;
        let loaded = state.config.scripts.load(&hash).await;
        loaded.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Refusal::invalid(format!("the script {hash} cannot be read: no node has it"))
            }
            _ => {
                tracing::warn!(sandbox_id = %sandbox.id, %hash, %error, "a script cannot be read");
                Refusal::unavailable()
            }
        })?
    };
    let script = Script::parse(&bytes);
    Ok(Source::Script(script.map_err(|error| Refusal::invalid(format!("the script is wrong: {error}")))?))
}

/// The project's own key goes before the server's.
async fn find_key(
    state: &GatewayState,
    sandbox: &Sandbox,
    vendor: Vendor,
) -> Result<Option<SecretString>, Refusal> {
    if let (Some(secrets), Some(project)) = (&state.config.secrets, &sandbox.project_id) {
        let own = secrets.find(project, vendor.key_name()).await.map_err(|error| {
            tracing::warn!(project_id = %project, %error, "a project's key cannot be read");
            Refusal::unavailable()
        })?;
        if own.is_some() {
            return Ok(own);
        }
    }
    Ok(state.config.upstream(vendor).api_key.clone())
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
