//! Passes a call on to a real model, with the real key, and its answer back as it comes.
//!
//! Nothing is buffered. The request goes on byte for byte unless the budget, the
//! accounting or the egress rules need a field changed ([`plan`]).

mod fields;
mod headers;
mod outside;
mod plan;
mod quota;
mod strip;

use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::budget::{Ask, NoRoom, Outcome, Spend};
use crate::dialect::Dialect;
use crate::model::{Call, GONE, Letter, PIECES_WAITING, Refusal, body_of};
use crate::script::Conversation;
use crate::usage::{Meter, Seen};
use crate::{GatewayState, record};
use plan::Plan;
use strip::Strip;

/// How long a vendor may take to count a request's tokens.
const COUNT_PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer to a request in which no model speaks.
const PASSED_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Sends a call on and its answer back.
pub(crate) async fn relay(
    mut call: Call,
    conversation: &Conversation,
    key: &SecretString,
    mut letter: Letter,
    head: oneshot::Sender<Response>,
) {
    match prepare(&mut call, conversation, key, &letter).await {
        Ok(plan) => {
            letter.body = plan.body();
            call.record.removed_tools.clone_from(&plan.removed_tools);
            let Some(request) = request_to(&call.state, call.dialect, key, Method::POST, letter) else {
                return call.refuse(&unusable_key(), head).await;
            };
            send(call, request, plan.hides_usage, head).await;
        }
        Err(refusal) => call.refuse(&refusal, head).await,
    }
}

/// Finds the price and reserves room; bounds the answer by what is left.
async fn prepare(
    call: &mut Call,
    conversation: &Conversation,
    key: &SecretString,
    letter: &Letter,
) -> Result<Plan, Refusal> {
    let state = call.state.clone();
    let model = &conversation.model;
    let price = state.config.prices.find(model).ok_or_else(|| unknown_price(model))?;
    let body = letter.body.clone();
    let mut plan = Plan::new(call.dialect, conversation, body, price).map_err(Refusal::invalid)?;
    let caller = call.caller.clone();
    let ask = Ask { state: &state, caller: &caller, dialect: call.dialect.name(), model, price };
    match Spend::reserve_whole(&ask, &plan.need).await {
        Ok(spend) => {
            call.spend = Some(spend);
            return Ok(plan);
        }
        Err(NoRoom::Budget(_)) => {}
        Err(reason) => return Err(reason.into()),
    }
    // The bound by bytes is several times the truth. Where that is too much, the vendor is asked to count.
    if let Some(counted) = count(call, key, letter, &plan).await {
        plan.take_count(counted);
    }
    let asked = plan.need.output_tokens;
    let (spend, allowed) = Spend::reserve_part(&ask, &plan.need).await?;
    if allowed < asked {
        plan.lower_output(allowed);
        spend.record_lowered(&ask, asked, allowed).await;
    }
    call.spend = Some(spend);
    Ok(plan)
}

fn unknown_price(model: &str) -> Refusal {
    Refusal::invalid(format!(
        "the gateway knows no price for the model {model:?}; add one, or a default, to the price file that the \
         server's setting gateway.prices names"
    ))
}

/// Asks the vendor how many tokens the input has.
async fn count(call: &Call, key: &SecretString, letter: &Letter, plan: &Plan) -> Option<u64> {
    let (path, body) = plan.count_request(call.dialect)?;
    let letter = Letter { path, query: None, headers: letter.headers.clone(), body };
    let request = request_to(&call.state, call.dialect, key, Method::POST, letter)?;
    let answer = request.timeout(COUNT_PATIENCE).send().await.ok()?.error_for_status().ok()?;
    let counted: Value = answer.json().await.ok()?;
    counted["input_tokens"].as_u64()
}

/// Has the vendor count the tokens of a request.
pub(crate) async fn count_tokens(
    state: &GatewayState,
    dialect: &'static dyn Dialect,
    key: &SecretString,
    mut letter: Letter,
) -> Response {
    match plan::kept_inside(dialect, &letter.body) {
        Ok(body) => letter.body = body,
        Err(words) => return Refusal::invalid(words).response(dialect),
    }
    pass(state, dialect, key, Method::POST, letter).await
}

/// Passes on a request in which no model speaks: it costs nothing and is not recorded.
pub(crate) async fn pass(
    state: &GatewayState,
    dialect: &'static dyn Dialect,
    key: &SecretString,
    method: Method,
    letter: Letter,
) -> Response {
    let Some(request) = request_to(state, dialect, key, method, letter) else {
        return unusable_key().response(dialect);
    };
    let failed = |error: reqwest::Error| out_of_reach(error).response(dialect);
    let mut answer = match request.timeout(Duration::from_secs(60)).send().await {
        Ok(answer) => answer,
        Err(error) => return failed(error),
    };
    let (status, headers) = (answer.status(), headers::passed_back(dialect.vendor(), answer.headers()));
    let mut body = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(bytes)) if body.len() + bytes.len() <= PASSED_MAX_BYTES => body.extend_from_slice(&bytes),
            Ok(Some(_)) => {
                let words = "the vendor's answer is longer than is passed on";
                return Refusal::new(StatusCode::BAD_GATEWAY, "api_error", words).response(dialect);
            }
            Ok(None) => break,
            Err(error) => return failed(error),
        }
    }
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn request_to(
    state: &GatewayState,
    dialect: &dyn Dialect,
    key: &SecretString,
    method: Method,
    letter: Letter,
) -> Option<reqwest::RequestBuilder> {
    let base = state.config.upstream(dialect.vendor()).base_url.trim_end_matches('/');
    let mut url = format!("{}{}", base.strip_suffix("/v1").unwrap_or(base), letter.path);
    if let Some(query) = letter.query {
        url.push('?');
        url.push_str(&query);
    }
    let headers = headers::passed_on(dialect.vendor(), &letter.headers, key)?;
    Some(state.client.request(method, url).headers(headers).body(letter.body))
}

fn unusable_key() -> Refusal {
    Refusal::invalid("the model's key holds characters that no header can carry; set it again")
}

fn out_of_reach(error: reqwest::Error) -> Refusal {
    let message = format!("the model's provider cannot be reached: {}", error.without_url());
    Refusal::new(StatusCode::BAD_GATEWAY, "api_error", message)
}

async fn send(
    mut call: Call,
    request: reqwest::RequestBuilder,
    hides_usage: bool,
    mut head: oneshot::Sender<Response>,
) {
    if head.is_closed() {
        call.record.error = Some(GONE.to_owned());
        return call.finish(Outcome::NotSent).await;
    }
    let sent = tokio::select! {
        sent = request.send() => Some(sent),
        () = head.closed() => None,
    };
    match sent {
        Some(Ok(answer)) => carry(call, answer, hides_usage, head).await,
        Some(Err(error)) => {
            // Without a connection nothing was sent; after that the vendor may have begun.
            let outcome = if error.is_connect() || error.is_builder() {
                Outcome::NotSent
            } else {
                Outcome::Answered(Seen::default())
            };
            let refusal = out_of_reach(error);
            tracing::warn!(sandbox_id = %call.caller.sandbox_id, reason = %refusal.message, "a model call failed");
            call.record.status = refusal.status.as_u16();
            call.record.error = Some(refusal.message.clone());
            let response = refusal.response(call.dialect);
            call.finish(outcome).await;
            let _ = head.send(response);
        }
        None => {
            call.record.status = StatusCode::BAD_GATEWAY.as_u16();
            call.record.error = Some(GONE.to_owned());
            call.finish(Outcome::Answered(Seen::default())).await;
        }
    }
}

/// Carries an answer back as it comes.
async fn carry(
    mut call: Call,
    mut answer: reqwest::Response,
    hides_usage: bool,
    head: oneshot::Sender<Response>,
) {
    let status = answer.status();
    let content_type = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let streamed = content_type.is_some_and(|value| value.starts_with("text/event-stream"));
    note_quota(&call, &answer).await;
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    let mut response = Response::new(body_of(receiver));
    *response.status_mut() = status;
    *response.headers_mut() = headers::passed_back(call.dialect.vendor(), answer.headers());
    call.record.status = status.as_u16();
    let mut meter = Meter::new(call.dialect, streamed);
    let mut strip = (hides_usage && streamed).then(Strip::default);
    let mut error = head.send(response).is_err().then(|| GONE.to_owned());
    while error.is_none() {
        let piece = tokio::select! {
            piece = answer.chunk() => piece,
            () = sender.closed() => { error = Some(GONE.to_owned()); continue; }
        };
        match piece {
            Ok(Some(bytes)) => {
                call.note_first_byte();
                meter.push(&bytes);
                let bytes = strip.as_mut().map_or(bytes.clone(), |strip| strip.push(&bytes));
                error = pass_on(&sender, bytes).await;
            }
            Ok(None) => {
                if let Some(strip) = &mut strip {
                    error = pass_on(&sender, strip.finish()).await;
                }
                break;
            }
            Err(broken) => {
                let broken = broken.without_url().to_string();
                // The client must see that the answer is not whole.
                let _ = sender.send(Err(std::io::Error::other(broken.clone()))).await;
                error = Some(format!("the answer broke off: {broken}"));
            }
        }
    }
    let seen = meter.finish();
    call.record.error = error.or_else(|| seen.error.clone());
    let outcome = if status.is_success() { Outcome::Answered(seen) } else { Outcome::Refused };
    // Settled before the client sees the end, so that what it does next finds the room that is really left.
    call.settle(&outcome).await;
    drop(sender);
    call.write_down().await;
}

/// Hands bytes to the reader; what is wrong, if it is gone.
async fn pass_on(sender: &mpsc::Sender<std::io::Result<Bytes>>, bytes: Bytes) -> Option<String> {
    if bytes.is_empty() {
        return None;
    }
    sender.send(Ok(bytes)).await.is_err().then(|| GONE.to_owned())
}

/// Says in the log until when the vendor takes no more calls.
async fn note_quota(call: &Call, answer: &reqwest::Response) {
    let now = call.state.config.clock.now();
    let Some(until) = quota::until(answer.status(), answer.headers(), now) else { return };
    let payload = json!({"until": until, "dialect": call.dialect.name(), "model": call.record.model});
    record::quota(&call.state, &call.caller.sandbox_id, &payload).await;
}
