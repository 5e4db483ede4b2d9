//! Answers that the proxy gives itself, in words that a program's log shows and a person can act on.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};

use super::dial::Failed;
use super::request::Target;

/// Names the rule in a refusal.
const RULE_HEADER: &str = "x-sunaba-rule";

pub(super) fn bad_request(words: &str) -> Response<Body> {
    let words = format!("Sunaba's egress proxy cannot read this request: {words}.\n");
    let mut answer = say(StatusCode::BAD_REQUEST, words);
    // Where a request was not understood, what follows on its connection is not either.
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

pub(super) fn by_policy(target: &Target, rule: &str) -> Response<Body> {
    let name = target.name();
    let entry = if [80, 443].contains(&target.port) { name } else { format!("{name}:{}", target.port) };
    let words = format!(
        "This sandbox reaches only the hosts that its project allows. If {entry} is needed, ask the project's \
         owner to allow it (sunaba project egress), or do without it. Trying again changes nothing.\n"
    );
    refused(target, rule, &words)
}

pub(super) fn by_address(target: &Target, rule: &str) -> Response<Body> {
    let words = "Addresses that are not public are closed to sandboxes, whatever a project allows. An \
                 administrator of the server can open a host with egress.private_hosts.\n";
    refused(target, rule, words)
}

pub(super) fn without_standing(target: &Target, rule: &str) -> Response<Body> {
    refused(target, rule, "This sandbox has no way out any more.\n")
}

pub(super) fn unavailable(words: &str) -> Response<Body> {
    let mut answer = say(StatusCode::SERVICE_UNAVAILABLE, format!("Sunaba cannot decide now: {words}.\n"));
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
    answer
}

/// The host is allowed and could not be reached.
pub(super) fn failed(target: &Target, failed: &Failed) -> Response<Body> {
    let status = if failed.is_timeout() { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
    say(status, format!("{}:{} is allowed, but {failed}.\n", target.name(), target.port))
}

/// The host was reached and did not behave.
pub(super) fn bad_gateway(target: &Target, words: &str) -> Response<Body> {
    say(StatusCode::BAD_GATEWAY, format!("{}:{}: {words}.\n", target.name(), target.port))
}

fn refused(target: &Target, rule: &str, words: &str) -> Response<Body> {
    let said = format!("Sunaba refused egress to {}:{}.\nRule: {rule}\n{words}", target.name(), target.port);
    let mut answer = say(StatusCode::FORBIDDEN, said);
    if let Ok(rule) = HeaderValue::from_str(rule) {
        answer.headers_mut().insert(RULE_HEADER, rule);
    }
    answer
}

fn say(status: StatusCode, words: String) -> Response<Body> {
    let mut answer = Response::new(Body::from(words));
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}
