//! Writes a scripted answer, whole or in the pieces of a stream.

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::pieces;
use crate::script::{Block, Reply, StopReason, ToolCall};
use crate::usage::Usage;

pub(super) fn whole(model: &str, reply: &Reply) -> Value {
    let parts = reply.blocks.iter().map(|block| match block {
        Block::Thinking(thinking) => thought(thinking),
        Block::Text(text) => json!({"text": text}),
        Block::Tool(call) => function_call(call),
    });
    let mut answer = Shell::new(model).answer(parts.collect());
    end(&mut answer, reply);
    answer
}

pub(super) fn stream(model: &str, reply: &Reply) -> Vec<Bytes> {
    let shell = Shell::new(model);
    let mut answers: Vec<Value> =
        reply.blocks.iter().flat_map(parts_of).map(|part| shell.answer(vec![part])).collect();
    for answer in &mut answers {
        answer["usageMetadata"] = usage(&Usage { output_tokens: 0, ..reply.usage });
    }
    if answers.is_empty() {
        answers.push(shell.answer(Vec::new()));
    }
    if let Some(last) = answers.last_mut() {
        end(last, reply);
    }
    answers.iter().map(|answer| Bytes::from(format!("data: {answer}\n\n"))).collect()
}

/// A block in pieces; the call of a tool is never cut.
fn parts_of(block: &Block) -> Vec<Value> {
    match block {
        Block::Thinking(thinking) => pieces(thinking).iter().map(|piece| thought(piece)).collect(),
        Block::Text(text) => pieces(text).into_iter().map(|piece| json!({"text": piece})).collect(),
        Block::Tool(call) => vec![function_call(call)],
    }
}

/// What every piece of an answer says.
struct Shell<'a> {
    id: String,
    model: &'a str,
}

impl<'a> Shell<'a> {
    fn new(model: &'a str) -> Self {
        Self { id: uuid::Uuid::now_v7().simple().to_string(), model }
    }

    fn answer(&self, parts: Vec<Value>) -> Value {
        json!({
            "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
            "modelVersion": self.model,
            "responseId": self.id,
        })
    }
}

fn end(answer: &mut Value, reply: &Reply) {
    answer["candidates"][0]["finishReason"] = json!(finish(&reply.stop));
    answer["usageMetadata"] = usage(&reply.usage);
}

fn thought(thinking: &str) -> Value {
    json!({"text": thinking, "thought": true})
}

fn function_call(call: &ToolCall) -> Value {
    json!({"functionCall": {"id": format!("call_{}", call.id), "name": call.name, "args": call.input}})
}

/// Asking for a tool is an ordinary end there.
fn finish(stop: &StopReason) -> String {
    match stop {
        StopReason::EndOfTurn | StopReason::ToolUse => "STOP".to_owned(),
        StopReason::Other(reason) => reason.to_ascii_uppercase(),
    }
}

fn usage(usage: &Usage) -> Value {
    let prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    json!({
        "promptTokenCount": prompt,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "totalTokenCount": prompt + usage.output_tokens,
    })
}
