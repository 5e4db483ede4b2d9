//! Passes a call on to a real model, with the real key, and its answer back as it comes.
//!
//! Nothing is buffered. The request goes on byte for byte unless the budget, the
//! accounting or the egress rules need a field changed ([`plan`]).

mod carry;
mod fields;
mod google;
mod headers;
mod known;
mod media;
mod outside;
mod part;
mod plan;
mod quota;
mod strip;

use std::time::Duration;

use axum::response::Response;
use http::{Method, StatusCode};
use secrecy::SecretString;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::GatewayState;
use crate::bodies::{Bodies, Held};
use crate::budget::{Ask, NoRoom, Spend};
use crate::dialect::Dialect;
use crate::model::{Call, Letter, Refusal};
use crate::script::Conversation;
use carry::{Sending, send};
use plan::Plan;

/// How long a vendor may take to count a request's tokens.
const COUNT_PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer to a request in which no model speaks.
const PASSED_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Sends a call on and its answer back.
pub(crate) async fn relay(
    mut call: Call,
    conversation: Conversation,
    key: &SecretString,
    mut letter: Letter,
    held: Held,
    head: oneshot::Sender<Response>,
) {
    let streamed = conversation.streamed;
    let (request, hides_usage) = match prepare(&mut call, conversation, key, &letter).await {
        Ok(plan) => {
            letter.body = plan.body();
            call.record.removed_tools.clone_from(&plan.removed_tools);
            call.record.removed_fields = plan.left_out().to_vec();
            (request_to(&call.state, call.dialect, key, Method::POST, letter), plan.hides_usage)
        }
        Err(refusal) => return call.refuse(&refusal, head).await,
    };
    match request {
        Some(request) => send(call, Sending { request, streamed, hides_usage, held }, head).await,
        None => call.refuse(&unusable_key(), head).await,
    }
}

/// Finds the price and reserves room; bounds the answer by what is left.
async fn prepare(
    call: &mut Call,
    conversation: Conversation,
    key: &SecretString,
    letter: &Letter,
) -> Result<Plan, Refusal> {
    let state = call.state.clone();
    let model = &conversation.model.clone();
    let price = state.config.prices.find(model).ok_or_else(|| unknown_price(model))?;
    let (dialect, body, its_price, size) =
        (call.dialect, letter.body.clone(), price.clone(), letter.body.len());
    let planned = move || Plan::new(dialect, &conversation, body, &its_price).map_err(Refusal::invalid);
    let mut plan = Bodies::read(&state, size, planned).await?;
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
    let (path, body) = plan.count_request(call.dialect, &call.record.model)?;
    let letter = Letter { path, query: None, headers: letter.headers.clone(), body };
    let request = request_to(&call.state, call.dialect, key, Method::POST, letter)?;
    let answer = request.timeout(COUNT_PATIENCE).send().await.ok()?.error_for_status().ok()?;
    let counted: Value = answer.json().await.ok()?;
    call.dialect.counted(&counted)
}

/// Has the vendor count the tokens of a request.
pub(crate) async fn count_tokens(
    state: &GatewayState,
    dialect: &'static dyn Dialect,
    key: &SecretString,
    mut letter: Letter,
) -> Response {
    let (body, size) = (letter.body.clone(), letter.body.len());
    let kept = move || plan::kept_inside(dialect, &body).map_err(Refusal::invalid);
    match Bodies::read(state, size, kept).await {
        Ok(body) => letter.body = body,
        Err(refusal) => return refusal.response(dialect),
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
    let base = ["/v1beta", "/v1"].iter().find_map(|version| base.strip_suffix(version)).unwrap_or(base);
    let mut url = format!("{base}{}", letter.path);
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
