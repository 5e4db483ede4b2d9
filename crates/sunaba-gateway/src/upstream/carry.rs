//! One call on the wire: its request out, and its answer back as it comes.

use std::time::{Duration, Instant};

use axum::response::Response;
use bytes::Bytes;
use http::{StatusCode, header};
use serde_json::json;
use sunaba_store::{Suspension, Waits};
use sunaba_types::Timestamp;
use tokio::sync::{mpsc, oneshot};

use super::strip::Strip;
use super::{google, headers, out_of_reach, quota};
use crate::bodies::Held;
use crate::budget::{Cut, Outcome};
use crate::dialect::Vendor;
use crate::model::{Call, GONE, PIECES_WAITING, body_of};
use crate::record;
use crate::usage::{Meter, Seen};

/// Limits that end sooner are waited out by the agents themselves.
const WAITED_OUT_SECONDS: i64 = 300;

/// How much of an error's body is read, and for how long it may take to come.
const ERROR_MAX_BYTES: usize = 64 * 1024;
const ERROR_PATIENCE: Duration = Duration::from_secs(10);

/// A request on its way out.
pub(super) struct Sending {
    pub(super) request: reqwest::RequestBuilder,
    /// Whether the answer is asked for as a stream.
    pub(super) streamed: bool,
    pub(super) hides_usage: bool,
    /// The memory that is counted for it, until the vendor has it.
    pub(super) held: Held,
}

/// Sends a request and its answer back.
pub(super) async fn send(mut call: Call, sending: Sending, mut head: oneshot::Sender<Response>) {
    let Sending { request, streamed, hides_usage, held } = sending;
    if head.is_closed() {
        call.record.error = Some(GONE.to_owned());
        return call.finish(Outcome::NotSent).await;
    }
    let since = Instant::now();
    let cut = || Outcome::Cut(Cut { seen: Seen::default(), lasted: since.elapsed(), streamed });
    let sent = tokio::select! {
        sent = request.send() => Some(sent),
        () = head.closed() => None,
    };
    drop(held);
    match sent {
        Some(Ok(answer)) => carry(call, answer, Carrying { streamed, hides_usage, since }, head).await,
        Some(Err(error)) => {
            // Without a connection nothing was sent; after that the vendor may have begun.
            let outcome = if error.is_connect() || error.is_builder() { Outcome::NotSent } else { cut() };
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
            call.finish(cut()).await;
        }
    }
}

/// What is known of an answer before it comes.
#[derive(Debug, Clone, Copy)]
struct Carrying {
    /// Whether it was asked for as a stream.
    streamed: bool,
    hides_usage: bool,
    /// When the request was sent.
    since: Instant,
}

/// Carries an answer back as it comes.
async fn carry(
    mut call: Call,
    mut answer: reqwest::Response,
    carrying: Carrying,
    head: oneshot::Sender<Response>,
) {
    let status = answer.status();
    let content_type = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let streamed = content_type.is_some_and(|value| value.starts_with("text/event-stream"));
    let asked_to_wait = if call.dialect.vendor() == Vendor::Google && status == StatusCode::TOO_MANY_REQUESTS
    {
        let (same, body) = read_error(answer).await;
        answer = same;
        google::retry_delay(&body)
    } else {
        None
    };
    note_quota(&call, &answer, asked_to_wait).await;
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    let mut response = Response::new(body_of(receiver));
    *response.status_mut() = status;
    *response.headers_mut() = headers::passed_back(call.dialect.vendor(), answer.headers());
    call.record.status = status.as_u16();
    let mut meter = Meter::new(call.dialect, streamed);
    let mut strip = (carrying.hides_usage && streamed).then(Strip::default);
    let mut error = head.send(response).is_err().then(|| GONE.to_owned());
    let mut is_whole = false;
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
                is_whole = true;
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
    let outcome = if !status.is_success() {
        Outcome::Refused
    } else if seen.is_final {
        Outcome::Answered(seen)
    } else {
        // A whole answer that does not tell its usage is at least all there.
        let streamed = streamed || carrying.streamed || is_whole;
        Outcome::Cut(Cut { seen, lasted: carrying.since.elapsed(), streamed })
    };
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

/// Reads an error's body and gives it back in an answer that is the same. A longer one than errors are is cut.
async fn read_error(mut answer: reqwest::Response) -> (reqwest::Response, Bytes) {
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(bytes)) = answer.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() > ERROR_MAX_BYTES {
                break;
            }
        }
    };
    // What has come by then is passed on.
    let _ = tokio::time::timeout(ERROR_PATIENCE, reading).await;
    let (status, headers, body) = (answer.status(), answer.headers().clone(), Bytes::from(body));
    let mut same = http::Response::new(body.clone());
    (*same.status_mut(), *same.headers_mut()) = (status, headers);
    (reqwest::Response::from(same), body)
}

/// Says in the log until when the vendor takes no more calls.
async fn note_quota(call: &Call, answer: &reqwest::Response, asked_to_wait: Option<Duration>) {
    let now = call.state.config.clock.now();
    let by_body = || asked_to_wait.and_then(|wait| now.checked_add(wait).ok());
    let Some(until) = quota::until(answer.status(), answer.headers(), now).or_else(by_body) else { return };
    let payload = json!({"until": until, "dialect": call.dialect.name(), "model": call.record.model});
    record::quota(&call.state, &call.caller.sandbox_id, &payload).await;
    let seconds = until.duration_since(now).as_secs();
    if seconds > WAITED_OUT_SECONDS && may_wait(call, seconds).await {
        park(call, until).await;
    }
}

/// Whether a task may wait so much longer; one that may not is told what the vendor says, and fails with it.
async fn may_wait(call: &Call, seconds: i64) -> bool {
    let (id, most) = (&call.caller.sandbox_id, call.state.config.quota_wait_max.as_secs());
    let waited_ms = match call.state.config.store.find_sandbox(id).await {
        Ok(Some(row)) if row.terms.suspended.is_none() => row.terms.quota_wait_ms,
        // It waits already, or what is wrong is found out in a moment.
        _ => return true,
    };
    let in_all = u64::try_from(seconds.saturating_add(waited_ms / 1000)).unwrap_or(0);
    if in_all > most {
        tracing::warn!(sandbox = %id, in_all, most, "a task would wait too long for a limit and does not");
    }
    in_all <= most
}

/// Lets the task wait without its sandbox. Before the agent has the answer, which it fails with.
async fn park(call: &Call, until: Timestamp) {
    let id = &call.caller.sandbox_id;
    let reason = format!("the model's vendor takes no more calls until {until}");
    let suspension = Suspension { waits: Waits::Quota { until }, reason };
    match call.state.config.store.suspend(id, suspension).await {
        Ok(_) => tracing::info!(sandbox = %id, %until, "a task waits until its limit is reset"),
        // It is over, or somebody else runs it: it is told, and that is all.
        Err(error) => tracing::debug!(sandbox = %id, %error, "a task that met a limit does not wait"),
    }
}
