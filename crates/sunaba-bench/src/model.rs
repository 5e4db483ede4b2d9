//! What the stand-in for a model says, in the words of the Messages API.

use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

/// One event of a stream.
pub(crate) fn frame(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

/// How an answer begins.
pub(crate) fn begin() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "model": "bench", "content": [], "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 0}}})
}

/// How it ends.
pub(crate) fn end(reason: &str) -> String {
    let delta =
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 100}});
    frame(&delta) + &frame(&json!({"type": "message_stop"}))
}

/// A few words, which end the turn.
pub(crate) fn says(text: &str) -> Response {
    let block = json!({"type": "text", "text": ""});
    answer(&block, &json!({"type": "text_delta", "text": text}), "end_turn")
}

/// A call of the shell.
pub(crate) fn uses(id: &str, input: &Value) -> Response {
    let block = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {}});
    answer(&block, &json!({"type": "input_json_delta", "partial_json": input.to_string()}), "tool_use")
}

fn answer(block: &Value, delta: &Value, reason: &str) -> Response {
    let text = frame(&begin())
        + &frame(&json!({"type": "content_block_start", "index": 0, "content_block": block}))
        + &frame(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
        + &frame(&json!({"type": "content_block_stop", "index": 0}))
        + &end(reason);
    ([("content-type", "text/event-stream")], text).into_response()
}
