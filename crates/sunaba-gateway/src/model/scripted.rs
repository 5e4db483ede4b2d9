//! A call that a script answers.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{StatusCode, header};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::{Call, GONE, PIECES_WAITING, body_of};
use crate::budget::Outcome;
use crate::script::{Conversation, Played, Reply, Script, play};
use crate::usage::Seen;

/// How long a piece of a scripted answer may wait for its reader.
const READER_PATIENCE: Duration = Duration::from_secs(300);

/// Answers a call from a script.
pub(super) async fn answer(
    mut call: Call,
    script: &Script,
    conversation: &Conversation,
    head: oneshot::Sender<Response>,
) {
    let sandbox_id = call.caller.sandbox_id.clone();
    let owed = |turn, times| call.state.count_error(&sandbox_id, turn, times);
    match play(script, conversation, owed) {
        Played::Reply { turn, reply } => {
            call.record.script_turn = turn;
            if let Err(refusal) = call.reserve_scripted(&reply.usage).await {
                return call.refuse(&refusal, head).await;
            }
            let seen = Seen { usage: reply.usage, has_input: true, is_final: true, ..Seen::default() };
            let outcome = Outcome::Answered(seen);
            if conversation.streamed {
                stream(call, conversation, &reply, outcome, head).await;
            } else {
                let body = call.dialect.whole(&conversation.model, &reply);
                // A model needs no less time for an answer in one piece.
                let delay = reply.delay + reply.chunk_delay;
                whole(call, StatusCode::OK, body, delay, outcome, head).await;
            }
        }
        Played::Error { turn, error, delay } => {
            call.record.script_turn = Some(turn);
            call.record.error = Some(error.message.clone());
            let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let body = call.dialect.error(status, &error.kind, &error.message);
            whole(call, status, body, delay, Outcome::Refused, head).await;
        }
        Played::Failed { turn, message } => {
            tracing::warn!(%sandbox_id, %message, "a script does not fit the request");
            call.record.script_turn = Some(turn);
            let status = StatusCode::BAD_REQUEST;
            let body = call.dialect.error(status, "invalid_request_error", &message);
            call.record.error = Some(message);
            whole(call, status, body, Duration::ZERO, Outcome::Refused, head).await;
        }
    }
}

/// Answers in one piece.
async fn whole(
    mut call: Call,
    status: StatusCode,
    body: Value,
    delay: Duration,
    outcome: Outcome,
    mut head: oneshot::Sender<Response>,
) {
    call.record.status = status.as_u16();
    tokio::select! {
        () = tokio::time::sleep(delay) => call.note_first_byte(),
        () = head.closed() => call.record.error = Some(GONE.to_owned()),
    }
    call.finish(outcome).await;
    let _ = head.send((status, axum::Json(body)).into_response());
}

async fn stream(
    mut call: Call,
    conversation: &Conversation,
    reply: &Reply,
    outcome: Outcome,
    head: oneshot::Sender<Response>,
) {
    call.record.status = 200;
    let pieces: Vec<Bytes> = call.dialect.stream(conversation, reply);
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    let _ = head.send((headers, body_of(receiver)).into_response());
    for (index, piece) in pieces.into_iter().enumerate() {
        let wait = if index == 0 { reply.delay } else { reply.chunk_delay };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = sender.closed() => {}
        }
        if sender.send_timeout(Ok(piece), READER_PATIENCE).await.is_err() {
            call.record.error = Some(GONE.to_owned());
            break;
        }
        call.note_first_byte();
    }
    call.finish(outcome).await;
}
