//! The Anthropic Messages dialect.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::gather::Gather;
use super::{Detail, Dialect, Vendor, add_line, frame, pieces};
use crate::json::Lazy;
use crate::script::{Block, Conversation, OfferedTool, Reply, Speaker, StopReason, ToolKind};
use crate::usage::{Seen, Usage};

/// The Anthropic Messages dialect.
#[derive(Debug)]
pub(crate) struct Anthropic;

impl Dialect for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn vendor(&self) -> Vendor {
        Vendor::Anthropic
    }

    fn output_fields(&self) -> &'static [&'static str] {
        &["max_tokens"]
    }

    fn read(&self, body: &[u8], detail: Detail) -> Result<Conversation, String> {
        let names = ["model", "system", "stream", "messages", "tools"];
        let [model, system, stream, messages, tools] = Lazy::parse(body)?.pick(names)?;
        let read = Conversation {
            model: model.text().unwrap_or_default().into_owned(),
            streamed: stream.is_true(),
            usage_in_stream: true,
            size_bytes: body.len(),
            ..Conversation::default()
        };
        let mut gather = Gather::new(detail, read);
        gather.system(&words(system)?);
        gather.tools(tools, read_tool)?;
        if !messages.each(|message| read_message(message, &mut gather))? {
            return Err("messages: must be a list".to_owned());
        }
        Ok(gather.done())
    }

    fn error(&self, _: StatusCode, kind: &str, message: &str) -> Value {
        // The vendor's word for a balance that is used up is the same as for any request that cannot be served.
        let kind = if kind == "budget_exhausted" { "invalid_request_error" } else { kind };
        json!({"type": "error", "error": {"type": kind, "message": message}})
    }

    fn whole(&self, model: &str, reply: &Reply) -> Value {
        let content: Vec<Value> = reply.blocks.iter().map(whole_block).collect();
        let mut message = message_shell(model);
        message["content"] = Value::Array(content);
        message["stop_reason"] = json!(stop_reason(&reply.stop));
        message["usage"] = usage(&reply.usage);
        message
    }

    fn stream(&self, asked: &Conversation, reply: &Reply) -> Vec<Bytes> {
        let mut message = message_shell(&asked.model);
        message["usage"] = usage(&Usage { output_tokens: 0, ..reply.usage });
        let mut events = vec![json!({"type": "message_start", "message": message})];
        for (index, block) in reply.blocks.iter().enumerate() {
            stream_block(&mut events, index, block);
        }
        events.push(json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason(&reply.stop), "stop_sequence": null},
            "usage": {"output_tokens": reply.usage.output_tokens},
        }));
        events.push(json!({"type": "message_stop"}));
        events.iter().map(frame).collect()
    }

    fn look(&self, value: &Value, seen: &mut Seen) {
        match value["type"].as_str() {
            Some("message_start") => take_usage(&value["message"]["usage"], seen),
            Some("message") => {
                take_usage(&value["usage"], seen);
                seen.is_final = true;
            }
            Some("message_delta") => {
                take_usage(&value["usage"], seen);
                seen.is_final = value["usage"]["output_tokens"].is_u64();
            }
            Some("error") => seen.take_error(&value["error"]),
            _ => {}
        }
    }
}

/// Takes over the counts that a `usage` object names. Where the vendor sampled more than once, the passes stand
/// in `iterations`, and not all of them in the counts beside it.
fn take_usage(usage: &Value, seen: &mut Seen) {
    let counts = &mut seen.usage;
    let passes = usage["iterations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let fields = [
        ("input_tokens", &mut counts.input_tokens),
        ("output_tokens", &mut counts.output_tokens),
        ("cache_read_input_tokens", &mut counts.cache_read_tokens),
        ("cache_creation_input_tokens", &mut counts.cache_write_tokens),
    ];
    for (name, count) in fields {
        if let Some(said) = usage[name].as_u64() {
            *count = said;
        }
        let all = passes.iter().filter_map(|pass| pass[name].as_u64()).fold(0, u64::saturating_add);
        *count = (*count).max(all);
    }
    let long = |usage: &Value| usage["cache_creation"]["ephemeral_1h_input_tokens"].as_u64();
    let all = passes.iter().filter_map(long).fold(0, u64::saturating_add);
    if let Some(long) = long(usage).or((all > 0).then_some(all)) {
        counts.cache_write_long_tokens = long.max(all).min(counts.cache_write_tokens);
    }
    seen.has_input |= usage["input_tokens"].is_u64();
}

fn message_shell(model: &str) -> Value {
    json!({
        "id": format!("msg_{}", uuid::Uuid::now_v7().simple()),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    })
}

fn stop_reason(stop: &StopReason) -> &str {
    match stop {
        StopReason::EndOfTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::Other(reason) => reason,
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    })
}

fn whole_block(block: &Block) -> Value {
    match block {
        Block::Thinking(thinking) => {
            json!({"type": "thinking", "thinking": thinking, "signature": signature()})
        }
        Block::Text(text) => json!({"type": "text", "text": text}),
        Block::Tool(call) => {
            json!({"type": "tool_use", "id": call_id(&call.id), "name": call.name, "input": call.input})
        }
    }
}

fn call_id(id: &str) -> String {
    format!("toolu_{id}")
}

/// Stands where the vendor signs a thought; it says plainly what it is.
fn signature() -> &'static str {
    "c2NyaXB0ZWQ="
}

fn stream_block(events: &mut Vec<Value>, index: usize, block: &Block) {
    let (empty, deltas) = match block {
        Block::Thinking(thinking) => {
            let mut deltas: Vec<Value> = pieces(thinking)
                .into_iter()
                .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                .collect();
            deltas.push(json!({"type": "signature_delta", "signature": signature()}));
            (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
        }
        Block::Text(text) => {
            let delta = |piece| json!({"type": "text_delta", "text": piece});
            (json!({"type": "text", "text": ""}), pieces(text).into_iter().map(delta).collect())
        }
        Block::Tool(call) => {
            let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
            let empty = json!({"type": "tool_use", "id": call_id(&call.id), "name": call.name, "input": {}});
            (empty, pieces(&call.input.to_string()).into_iter().map(delta).collect())
        }
    };
    events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
    for delta in deltas {
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
    }
    events.push(json!({"type": "content_block_stop", "index": index}));
}

fn read_message(message: Lazy<'_>, gather: &mut Gather) -> Result<(), String> {
    let [role, content] = message.pick(["role", "content"])?;
    let by = match role.text().as_deref() {
        Some("user") => Speaker::User,
        Some("assistant") => Speaker::Assistant,
        // Clients also say what belongs to the system between two messages.
        Some("system") => {
            gather.system(&words(content)?);
            return Ok(());
        }
        _ => return Err("messages: every role is user, assistant or system".to_owned()),
    };
    let mut tool_results = String::new();
    content.each(|block| {
        let [kind, content] = block.pick(["type", "content"])?;
        if kind.is_text("tool_result") {
            add_line(&mut tool_results, &words(content)?);
        }
        Ok(())
    })?;
    gather.say(by, words(content)?, tool_results)
}

fn read_tool(gather: &mut Gather, tool: Lazy<'_>) -> Result<(), String> {
    let [name, schema] = tool.pick(["name", "input_schema"])?;
    let Some(name) = name.text() else { return Ok(()) };
    let properties = gather.properties(schema)?;
    gather.offer(OfferedTool {
        name: name.into_owned(),
        properties,
        kind: ToolKind::Function,
        namespace: None,
    });
    Ok(())
}

/// The words of a text or of a list of blocks.
fn words(content: Lazy<'_>) -> Result<String, String> {
    if let Some(text) = content.text() {
        return Ok(text.into_owned());
    }
    let mut said = String::new();
    content.each(|block| {
        let [kind, text] = block.pick(["type", "text"])?;
        if kind.is_text("text") {
            add_line(&mut said, &text.text().unwrap_or_default());
        }
        Ok(())
    })?;
    Ok(said)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_read_in_all_its_shapes() {
        let body = json!({
            "model": "m", "stream": true,
            "system": [{"type": "text", "text": "be"}, {"type": "text", "text": "good"}],
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "Bash", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "out"}]},
                    {"type": "text", "text": "and stop"}]},
                {"role": "system", "content": "now"},
            ],
            "tools": [{"name": "Bash", "input_schema": {"properties": {"command": {"type": "string"}}}}],
        });
        let read = Anthropic.read(body.to_string().as_bytes(), Detail::Whole).unwrap();
        assert_eq!((read.system.as_str(), read.streamed), ("be\ngood\nnow", true));
        assert_eq!(read.messages.len(), 3);
        assert_eq!(read.messages[2].text, "and stop");
        assert_eq!(read.messages[2].tool_results, "out");
        assert!(read.tools[0].properties.contains_key("command"));
        assert!(Anthropic.read(b"{}", Detail::Whole).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Anthropic.read(&bytes, Detail::Whole);
        }
    }
}
