//! One call on the wire: its request out, and its answer back as it comes.

use std::time::Instant;

use axum::response::Response;
use bytes::Bytes;
use http::{StatusCode, header};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::strip::Strip;
use super::{headers, out_of_reach, quota};
use crate::bodies::Held;
use crate::budget::{Cut, Outcome};
use crate::model::{Call, GONE, PIECES_WAITING, body_of};
use crate::record;
use crate::usage::{Meter, Seen};

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
    note_quota(&call, &answer).await;
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

/// Says in the log until when the vendor takes no more calls.
async fn note_quota(call: &Call, answer: &reqwest::Response) {
    let now = call.state.config.clock.now();
    let Some(until) = quota::until(answer.status(), answer.headers(), now) else { return };
    let payload = json!({"until": until, "dialect": call.dialect.name(), "model": call.record.model});
    record::quota(&call.state, &call.caller.sandbox_id, &payload).await;
}
