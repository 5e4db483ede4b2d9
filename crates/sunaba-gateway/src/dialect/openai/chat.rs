//! The Chat Completions dialect.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::super::gather::Gather;
use super::super::{Detail, Dialect, Vendor, pieces};
use super::{call_id, error, fresh_id, is_added_context, now_seconds, take_usage, words};
use crate::json::Lazy;
use crate::script::{Block, Conversation, OfferedTool, Reply, Speaker, StopReason, ToolCall, ToolKind};
use crate::usage::{Seen, Usage};

/// The Chat Completions dialect.
#[derive(Debug)]
pub(crate) struct Chat;

impl Dialect for Chat {
    fn name(&self) -> &'static str {
        "openai_chat"
    }

    fn vendor(&self) -> Vendor {
        Vendor::OpenAi
    }

    fn output_fields(&self) -> &'static [&'static str] {
        &["max_completion_tokens", "max_tokens"]
    }

    fn read(&self, body: &[u8], detail: Detail) -> Result<Conversation, String> {
        let names = ["model", "stream", "stream_options", "messages", "tools"];
        let [model, stream, options, messages, tools] = Lazy::parse(body)?.pick(names)?;
        let [include_usage] = options.pick(["include_usage"])?;
        let read = Conversation {
            model: model.text().unwrap_or_default().into_owned(),
            streamed: stream.is_true(),
            usage_in_stream: include_usage.is_true(),
            size_bytes: body.len(),
            ..Conversation::default()
        };
        let mut gather = Gather::new(detail, read);
        gather.tools(tools, read_tool)?;
        if !messages.each(|message| read_message(message, &mut gather))? {
            return Err("messages: must be a list".to_owned());
        }
        Ok(gather.done())
    }

    fn error(&self, _: StatusCode, kind: &str, message: &str) -> Value {
        error(kind, message)
    }

    fn whole(&self, model: &str, reply: &Reply) -> Value {
        let mut message = json!({"role": "assistant", "content": null, "refusal": null});
        let mut calls = Vec::new();
        for block in &reply.blocks {
            match block {
                Block::Thinking(thinking) => message["reasoning_content"] = json!(thinking),
                Block::Text(text) => message["content"] = json!(text),
                Block::Tool(call) => calls.push(whole_call(call)),
            }
        }
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        json!({
            "id": fresh_id("chatcmpl"),
            "object": "chat.completion",
            "created": now_seconds(),
            "model": model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish(&reply.stop)}],
            "usage": usage(&reply.usage),
        })
    }

    fn stream(&self, asked: &Conversation, reply: &Reply) -> Vec<Bytes> {
        let shell = Shell { id: fresh_id("chatcmpl"), created: now_seconds(), asked };
        let mut chunks = vec![shell.delta(&json!({"role": "assistant", "content": ""}), None)];
        let mut calls = 0;
        for block in &reply.blocks {
            match block {
                Block::Thinking(text) => {
                    let delta = |piece| shell.delta(&json!({"reasoning_content": piece}), None);
                    chunks.extend(pieces(text).into_iter().map(delta));
                }
                Block::Text(text) => {
                    let delta = |piece| shell.delta(&json!({"content": piece}), None);
                    chunks.extend(pieces(text).into_iter().map(delta));
                }
                Block::Tool(call) => {
                    let deltas = call_deltas(calls, call);
                    chunks.extend(deltas.iter().map(|delta| shell.delta(delta, None)));
                    calls += 1;
                }
            }
        }
        chunks.push(shell.delta(&json!({}), Some(finish(&reply.stop))));
        if asked.usage_in_stream {
            chunks.push(shell.chunk(&json!([]), &usage(&reply.usage)));
        }
        let frames = chunks.iter().map(|chunk| Bytes::from(format!("data: {chunk}\n\n")));
        frames.chain([Bytes::from_static(b"data: [DONE]\n\n")]).collect()
    }

    fn look(&self, value: &Value, seen: &mut Seen) {
        take_usage(&value["usage"], ["prompt_tokens", "prompt_tokens_details", "completion_tokens"], seen);
        if value["error"].is_object() {
            seen.take_error(&value["error"]);
        }
    }
}

/// What every chunk of a stream says.
struct Shell<'a> {
    id: String,
    created: u64,
    asked: &'a Conversation,
}

impl Shell<'_> {
    fn delta(&self, delta: &Value, finish_reason: Option<&str>) -> Value {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        self.chunk(&json!([choice]), &Value::Null)
    }

    fn chunk(&self, choices: &Value, usage: &Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.asked.model,
            "choices": choices,
        });
        if self.asked.usage_in_stream {
            chunk["usage"] = usage.clone();
        }
        chunk
    }
}

fn call_deltas(index: usize, call: &ToolCall) -> Vec<Value> {
    let mut start = whole_call(call);
    start["index"] = json!(index);
    let (kind, key) = input_place(call);
    start[kind][key] = json!("");
    let pieces = pieces(&input_text(call)).into_iter();
    let rest = pieces.map(|piece| json!({"tool_calls": [{"index": index, kind: {key: piece}}]}));
    [json!({"tool_calls": [start]})].into_iter().chain(rest).collect()
}

fn whole_call(call: &ToolCall) -> Value {
    let (kind, key) = input_place(call);
    json!({"id": call_id(&call.id), "type": kind, kind: {"name": call.name, key: input_text(call)}})
}

fn input_place(call: &ToolCall) -> (&'static str, &'static str) {
    match call.kind {
        ToolKind::Text => ("custom", "input"),
        ToolKind::Function | ToolKind::LocalShell => ("function", "arguments"),
    }
}

fn input_text(call: &ToolCall) -> String {
    call.input.as_str().map_or_else(|| call.input.to_string(), str::to_owned)
}

fn finish(stop: &StopReason) -> &str {
    match stop {
        StopReason::EndOfTurn => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::Other(reason) if reason == "max_tokens" => "length",
        StopReason::Other(reason) => reason,
    }
}

fn usage(usage: &Usage) -> Value {
    let input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    json!({
        "prompt_tokens": input,
        "completion_tokens": usage.output_tokens,
        "total_tokens": input + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
    })
}

fn read_message(message: Lazy<'_>, gather: &mut Gather) -> Result<(), String> {
    let [role, content] = message.pick(["role", "content"])?;
    let text = words(content)?;
    match role.text().as_deref() {
        Some("system" | "developer") => gather.system(&text),
        Some("user") if is_added_context(&text) => gather.system(&text),
        Some("user") => gather.say(Speaker::User, text, String::new())?,
        Some("assistant") => gather.say(Speaker::Assistant, text, String::new())?,
        Some("tool" | "function") => gather.say(Speaker::User, String::new(), text)?,
        _ => {
            return Err("messages: every role is system, developer, user, assistant or tool".to_owned());
        }
    }
    Ok(())
}

fn read_tool(gather: &mut Gather, tool: Lazy<'_>) -> Result<(), String> {
    let [kind, custom, function] = tool.pick(["type", "custom", "function"])?;
    let (kind, described) =
        if kind.is_text("custom") { (ToolKind::Text, custom) } else { (ToolKind::Function, function) };
    let [name, parameters] = described.pick(["name", "parameters"])?;
    let Some(name) = name.text() else { return Ok(()) };
    let properties = gather.properties(parameters)?;
    gather.offer(OfferedTool { name: name.into_owned(), properties, kind, namespace: None });
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_read_in_all_its_shapes() {
        let body = json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true},
            "messages": [
                {"role": "system", "content": "be good"},
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "1", "content": "out"},
                {"role": "user", "content": "and stop"},
            ],
            "tools": [
                {"type": "function", "function": {"name": "bash", "parameters": {"properties": {"command": {}}}}},
                {"type": "custom", "custom": {"name": "apply_patch"}},
            ],
        });
        let read = Chat.read(body.to_string().as_bytes(), Detail::Whole).unwrap();
        assert_eq!((read.system.as_str(), read.streamed, read.usage_in_stream), ("be good", true, true));
        let by: Vec<Speaker> = read.messages.iter().map(|said| said.by).collect();
        assert_eq!(by, [Speaker::User, Speaker::Assistant, Speaker::User, Speaker::User]);
        assert_eq!(read.messages[2].tool_results, "out");
        assert_eq!((read.tools[0].kind, read.tools[1].kind), (ToolKind::Function, ToolKind::Text));
        assert!(Chat.read(b"{}", Detail::Whole).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Chat.read(&bytes, Detail::Whole);
        }
    }
}
