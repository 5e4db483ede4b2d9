//! The fake model's script, which is written as Messages streams, in OpenAI's two protocols, in Google's and in the
//! tools that each agent has.

use serde_json::{Value, json};

/// What of an answer a script has written down, whole or cut off.
#[derive(Debug, Default)]
struct Answer {
    blocks: Vec<Block>,
    is_whole: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thought(String),
    Call { id: String, name: String, input: Value },
}

/// A Messages stream as the request's path wants it.
pub(crate) fn translated(head: &str, request: &Value, stream: &str) -> String {
    let path = head.split_whitespace().nth(1).unwrap_or_default();
    if path.ends_with("/responses") {
        responses(&Answer::read(stream), request)
    } else if path.ends_with("/chat/completions") {
        chat(&Answer::read(stream))
    } else if path.contains(":streamGenerateContent") {
        google(&Answer::read(stream))
    } else if offers(request, "terminal") {
        messages(stream)
    } else {
        stream.to_owned()
    }
}

fn offers(request: &Value, tool: &str) -> bool {
    request["tools"].as_array().is_some_and(|tools| tools.iter().any(|offered| offered["name"] == tool))
}

impl Answer {
    fn read(stream: &str) -> Self {
        let mut answer = Self::default();
        let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
        for event in data.map(|data| serde_json::from_str::<Value>(data).unwrap()) {
            let word =
                |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            match event["type"].as_str().unwrap() {
                "content_block_start" => {
                    let block = match event["content_block"]["type"].as_str().unwrap() {
                        "text" => Block::Text(String::new()),
                        "thinking" => Block::Thought(String::new()),
                        _ => Block::Call {
                            id: word("/content_block/id"),
                            name: word("/content_block/name"),
                            input: Value::from(""),
                        },
                    };
                    answer.blocks.push(block);
                }
                "content_block_delta" => match answer.blocks.last_mut().unwrap() {
                    Block::Text(text) => text.push_str(&word("/delta/text")),
                    Block::Thought(text) => text.push_str(&word("/delta/thinking")),
                    Block::Call { input, .. } => {
                        *input =
                            Value::from(input.as_str().unwrap().to_owned() + &word("/delta/partial_json"));
                    }
                },
                "message_stop" => answer.is_whole = true,
                _ => {}
            }
        }
        for block in &mut answer.blocks {
            if let Block::Call { input, .. } = block {
                *input = serde_json::from_str(input.as_str().unwrap()).unwrap();
            }
        }
        answer
    }
}

fn sse(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// As a Responses stream; calls become those of Codex.
fn responses(answer: &Answer, request: &Value) -> String {
    let mut stream = sse(&json!({"type": "response.created", "response": {"id": "r", "output": []}}));
    let mut output = Vec::new();
    for (index, block) in answer.blocks.iter().enumerate() {
        let id = format!("item_{index}");
        let added = |item: &Value| {
            sse(&json!({"type": "response.output_item.added", "output_index": index, "item": item}))
        };
        let delta = |kind: &str, text: &str| {
            sse(&json!({"type": kind, "item_id": id, "output_index": index, "content_index": 0,
                "summary_index": 0, "delta": text}))
        };
        let item = match block {
            Block::Text(text) => {
                let message = |content: Value| json!({"type": "message", "id": id, "role": "assistant", "content": content});
                stream += &added(&message(json!([])));
                stream += &delta("response.output_text.delta", text);
                message(json!([{"type": "output_text", "text": text, "annotations": []}]))
            }
            Block::Thought(text) => {
                let reasoning = |summary: Value| json!({"type": "reasoning", "id": id, "summary": summary});
                stream += &added(&reasoning(json!([])));
                stream += &delta("response.reasoning_summary_text.delta", text);
                reasoning(json!([{"type": "summary_text", "text": text}]))
            }
            Block::Call { id: call, name, input } => codex_call(&id, call, name, input, request),
        };
        if !answer.is_whole {
            return stream;
        }
        stream += &sse(&json!({"type": "response.output_item.done", "output_index": index, "item": item}));
        output.push(item);
    }
    let usage = json!({
        "input_tokens": 15, "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 22,
    });
    let response = json!({"id": "r", "output": output, "usage": usage});
    stream + &sse(&json!({"type": "response.completed", "response": response}))
}

fn codex_call(id: &str, call: &str, name: &str, input: &Value, request: &Value) -> Value {
    let word = |key: &str| input[key].as_str().unwrap_or_default();
    let patch = |what: &str, lines: String| {
        let text = format!("*** Begin Patch\n*** {what} File: {}\n{lines}*** End Patch\n", word("file_path"));
        json!({"type": "custom_tool_call", "id": id, "call_id": call, "name": "apply_patch", "input": text})
    };
    match name {
        "Write" => patch("Add", word("content").lines().map(|line| format!("+{line}\n")).collect()),
        "Edit" => patch("Update", format!("@@\n-{}\n+{}\n", word("old_string"), word("new_string"))),
        "Bash" => {
            assert!(request["tools"].to_string().contains("shell_command"), "{:#}", request["tools"]);
            let arguments = json!({"command": word("command")}).to_string();
            json!({"type": "function_call", "id": id, "call_id": call, "name": "shell_command", "arguments": arguments})
        }
        other => {
            json!({"type": "function_call", "id": id, "call_id": call, "name": other, "arguments": input.to_string()})
        }
    }
}

/// As a Chat Completions stream; calls become those of OpenCode.
fn chat(answer: &Answer) -> String {
    let piece = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake-1",
            "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let mut stream = piece(json!({"role": "assistant", "content": ""}), Value::Null);
    let mut calls = 0;
    for block in &answer.blocks {
        let delta = match block {
            Block::Text(text) => json!({"content": text}),
            Block::Thought(text) => json!({"reasoning_content": text}),
            Block::Call { id, name, input } => {
                let function =
                    json!({"name": name.to_ascii_lowercase(), "arguments": opencode_input(name, input)});
                calls += 1;
                json!({"tool_calls": [{"index": calls - 1, "id": id, "type": "function", "function": function}]})
            }
        };
        stream += &piece(delta, Value::Null);
    }
    if !answer.is_whole {
        return stream;
    }
    stream += &piece(json!({}), Value::from(if calls > 0 { "tool_calls" } else { "stop" }));
    let usage = json!({"prompt_tokens": 15, "completion_tokens": 7, "total_tokens": 22,
        "prompt_tokens_details": {"cached_tokens": 5}});
    let last = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake-1",
        "choices": [], "usage": usage});
    format!("{stream}data: {last}\n\ndata: [DONE]\n\n")
}

fn opencode_input(name: &str, input: &Value) -> String {
    let arguments = match name {
        "Bash" => json!({"command": input["command"], "description": "runs it"}),
        "Write" => json!({"filePath": input["file_path"], "content": input["content"]}),
        "Edit" => json!({
            "filePath": input["file_path"], "oldString": input["old_string"], "newString": input["new_string"],
        }),
        _ => input.clone(),
    };
    arguments.to_string()
}

/// As it is written; calls become those of OpenHands.
fn messages(stream: &str) -> String {
    let mut changed = String::new();
    let mut pieces: Option<(String, String)> = None;
    for event in stream.split_inclusive("\n\n") {
        let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let mut data: Value = serde_json::from_str(data).unwrap();
        if data["content_block"]["type"] == "tool_use" {
            pieces = Some((data["content_block"]["name"].as_str().unwrap().to_owned(), String::new()));
            data["content_block"]["name"] = json!(openhands_tool(&data["content_block"]["name"]));
        } else if let (Some((_, whole)), Some(piece)) = (&mut pieces, data["delta"]["partial_json"].as_str())
        {
            // The arguments are changed as a whole, when all of them are there.
            whole.push_str(piece);
            continue;
        } else if data["type"] == "content_block_stop"
            && let Some((name, whole)) = pieces.take()
        {
            let input = openhands_input(&name, &serde_json::from_str(&whole).unwrap()).to_string();
            let delta = json!({"type": "input_json_delta", "partial_json": input});
            changed += &sse(&json!({"type": "content_block_delta", "index": data["index"], "delta": delta}));
        }
        changed += &sse(&data);
    }
    changed
}

fn openhands_tool(name: &Value) -> &str {
    match name.as_str().unwrap() {
        "Bash" => "terminal",
        "Write" | "Edit" => "file_editor",
        "Task" => "task",
        other => other,
    }
}

fn openhands_input(name: &str, input: &Value) -> Value {
    match name {
        "Write" => json!({"command": "create", "path": input["file_path"], "file_text": input["content"]}),
        "Edit" => json!({
            "command": "str_replace", "path": input["file_path"], "old_str": input["old_string"],
            "new_str": input["new_string"],
        }),
        _ => input.clone(),
    }
}

/// As a stream of Google's; calls become those of the Gemini CLI.
fn google(answer: &Answer) -> String {
    let usage = json!({"promptTokenCount": 15, "cachedContentTokenCount": 5, "candidatesTokenCount": 7,
        "totalTokenCount": 22});
    let mut stream = String::new();
    for (index, block) in answer.blocks.iter().enumerate() {
        let part = match block {
            Block::Text(text) => json!({"text": text}),
            Block::Thought(text) => json!({"text": text, "thought": true}),
            Block::Call { id, name, input } => {
                let (name, args) = gemini_call(name, input);
                json!({"functionCall": {"id": id, "name": name, "args": args}})
            }
        };
        let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": [part]}});
        if answer.is_whole && index + 1 == answer.blocks.len() {
            candidate["finishReason"] = json!("STOP");
        }
        let piece = json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake-1"});
        stream += &format!("data: {piece}\r\n\r\n");
    }
    stream
}

fn gemini_call<'a>(name: &'a str, input: &Value) -> (&'a str, Value) {
    match name {
        "Bash" => ("run_shell_command", json!({"command": input["command"], "description": "runs it"})),
        "Write" => ("write_file", input.clone()),
        "Edit" => {
            let mut args = input.clone();
            args["instruction"] = json!("changes it");
            ("replace", args)
        }
        other => (other, input.clone()),
    }
}
