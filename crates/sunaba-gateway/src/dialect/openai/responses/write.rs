//! Writes a scripted answer as a response, whole or as the events that official clients accept.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::super::{frame, pieces};
use super::super::{call_id, fresh_id, now_seconds};
use crate::script::{Block, Reply, StopReason, ToolCall, ToolKind};
use crate::usage::Usage;

pub(super) fn whole(model: &str, reply: &Reply) -> Value {
    let items = reply.blocks.iter().map(|block| Item::new(block).done).collect();
    ended(shell(model), items, reply)
}

pub(super) fn stream(model: &str, reply: &Reply) -> Vec<Bytes> {
    let shell = shell(model);
    let mut events = vec![
        json!({"type": "response.created", "response": shell}),
        json!({"type": "response.in_progress", "response": shell}),
    ];
    let mut items = Vec::new();
    for (index, block) in reply.blocks.iter().enumerate() {
        let item = Item::new(block);
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": item.added}));
        for mut event in item.between {
            event["output_index"] = json!(index);
            event["item_id"] = item.added["id"].clone();
            events.push(event);
        }
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item.done}));
        items.push(item.done);
    }
    let end = if is_cut(&reply.stop) { "response.incomplete" } else { "response.completed" };
    events.push(json!({"type": end, "response": ended(shell, items, reply)}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events.iter().map(frame).collect()
}

fn shell(model: &str) -> Value {
    json!({
        "id": fresh_id("resp"),
        "object": "response",
        "created_at": now_seconds(),
        "status": "in_progress",
        "model": model,
        "output": [],
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "metadata": {},
        "parallel_tool_calls": true,
        "store": false,
        "temperature": null,
        "tool_choice": "auto",
        "tools": [],
        "top_p": null,
        "usage": null,
    })
}

fn ended(mut response: Value, items: Vec<Value>, reply: &Reply) -> Value {
    response["output"] = Value::Array(items);
    response["usage"] = usage(&reply.usage);
    if is_cut(&reply.stop) {
        response["status"] = json!("incomplete");
        response["incomplete_details"] = json!({"reason": "max_output_tokens"});
    } else {
        response["status"] = json!("completed");
    }
    response
}

fn is_cut(stop: &StopReason) -> bool {
    matches!(stop, StopReason::Other(reason) if reason == "max_tokens")
}

fn usage(usage: &Usage) -> Value {
    let input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + usage.output_tokens,
    })
}

/// One item of the output: as it begins, the events that fill it, and as it ends.
struct Item {
    added: Value,
    between: Vec<Value>,
    done: Value,
}

impl Item {
    fn new(block: &Block) -> Self {
        match block {
            Block::Thinking(thinking) => reasoning(thinking),
            Block::Text(text) => message(text),
            Block::Tool(call) => match call.kind {
                ToolKind::Function => function_call(call),
                ToolKind::Text => custom_call(call),
                ToolKind::LocalShell => shell_call(call),
            },
        }
    }
}

fn message(text: &str) -> Item {
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
    let id = fresh_id("msg");
    let item = |status: &str, content: Value| json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content});
    let mut between =
        vec![json!({"type": "response.content_part.added", "content_index": 0, "part": part("")})];
    between.extend(pieces(text).into_iter().map(|piece| {
        json!({"type": "response.output_text.delta", "content_index": 0, "delta": piece, "logprobs": []})
    }));
    between
        .push(json!({"type": "response.output_text.done", "content_index": 0, "text": text, "logprobs": []}));
    between.push(json!({"type": "response.content_part.done", "content_index": 0, "part": part(text)}));
    Item { added: item("in_progress", json!([])), between, done: item("completed", json!([part(text)])) }
}

fn reasoning(thinking: &str) -> Item {
    let part = |text: &str| json!({"type": "summary_text", "text": text});
    let id = fresh_id("rs");
    let item = |summary: Value| json!({"id": id, "type": "reasoning", "summary": summary});
    let at = |kind: &str| json!({"type": format!("response.{kind}"), "summary_index": 0});
    let with = |mut event: Value, key: &str, value: Value| {
        event[key] = value;
        event
    };
    let mut between = vec![with(at("reasoning_summary_part.added"), "part", part(""))];
    let deltas = pieces(thinking).into_iter();
    between.extend(deltas.map(|piece| with(at("reasoning_summary_text.delta"), "delta", json!(piece))));
    between.push(with(at("reasoning_summary_text.done"), "text", json!(thinking)));
    between.push(with(at("reasoning_summary_part.done"), "part", part(thinking)));
    Item { added: item(json!([])), between, done: item(json!([part(thinking)])) }
}

fn function_call(call: &ToolCall) -> Item {
    let arguments = call.input.to_string();
    let id = fresh_id("fc");
    let item = |status: &str, arguments: &str| {
        let mut item = json!({
            "id": id, "type": "function_call", "status": status,
            "call_id": call_id(&call.id), "name": call.name, "arguments": arguments,
        });
        if let Some(namespace) = &call.namespace {
            item["namespace"] = json!(namespace);
        }
        item
    };
    let delta = |piece| json!({"type": "response.function_call_arguments.delta", "delta": piece});
    let mut between: Vec<Value> = pieces(&arguments).into_iter().map(delta).collect();
    between.push(
        json!({"type": "response.function_call_arguments.done", "name": call.name, "arguments": arguments}),
    );
    Item { added: item("in_progress", ""), between, done: item("completed", &arguments) }
}

fn custom_call(call: &ToolCall) -> Item {
    let input = call.input.as_str().map_or_else(|| call.input.to_string(), str::to_owned);
    let id = fresh_id("ctc");
    let item = |status: &str, input: &str| {
        json!({
            "id": id, "type": "custom_tool_call", "status": status,
            "call_id": call_id(&call.id), "name": call.name, "input": input,
        })
    };
    let delta = |piece| json!({"type": "response.custom_tool_call_input.delta", "delta": piece});
    let mut between: Vec<Value> = pieces(&input).into_iter().map(delta).collect();
    between.push(json!({"type": "response.custom_tool_call_input.done", "input": input}));
    Item { added: item("in_progress", ""), between, done: item("completed", &input) }
}

fn shell_call(call: &ToolCall) -> Item {
    let id = fresh_id("lsh");
    let item = |status: &str| {
        json!({
            "id": id, "type": "local_shell_call", "status": status,
            "call_id": call_id(&call.id), "action": call.input,
        })
    };
    Item { added: item("in_progress"), between: Vec::new(), done: item("completed") }
}
