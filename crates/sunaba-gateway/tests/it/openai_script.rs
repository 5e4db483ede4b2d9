//! The scripted model in OpenAI's two dialects.

use serde_json::{Value, json};

use crate::support::World;

const SCRIPT: &str = "
- thinking: let me see
  text: äöü hello
  tools:
    - shell: echo {{prompt}}
    - write: {path: a.txt, content: \"one\\n\"}
  usage: {input_tokens: 7, output_tokens: 3, cache_read_tokens: 2}
- expect: [{tool_result_contains: it ran}]
  text: done
";

fn responses_request(stream: bool, more: &[Value]) -> Value {
    let mut input = vec![
        json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>here"}]}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}),
    ];
    input.extend_from_slice(more);
    json!({
        "model": "gpt-x", "stream": stream, "store": false, "input": input,
        "tools": [
            {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {"type": "string"}}}},
            {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
            {"type": "web_search"},
        ],
    })
}

fn chat_request(stream: bool, more: &[Value]) -> Value {
    let mut messages =
        vec![json!({"role": "system", "content": "rules"}), json!({"role": "user", "content": "hi"})];
    messages.extend_from_slice(more);
    let tool = |name: &str, keys: &[&str]| {
        let properties: serde_json::Map<_, _> =
            keys.iter().map(|key| ((*key).to_owned(), json!({"type": "string"}))).collect();
        json!({"type": "function", "function": {"name": name, "parameters": {"properties": properties}}})
    };
    json!({
        "model": "gpt-x", "stream": stream, "messages": messages,
        "tools": [tool("bash", &["command", "description"]), tool("write", &["filePath", "content"])],
    })
}

/// The data of each event of a stream.
fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn a_whole_response_has_the_calls_of_the_turn() {
    let world = World::scripted(SCRIPT).await;
    for path in ["openai/v1/responses", "openai/responses"] {
        let (status, body) = world.ask_at(path, &responses_request(false, &[])).await;
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&body["object"], &body["status"]), (&json!("response"), &json!("completed")));
        let kinds: Vec<&str> =
            body["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["reasoning", "message", "function_call", "custom_tool_call"]);
        let arguments: Value =
            serde_json::from_str(body["output"][2]["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, json!({"cmd": "echo 'hi'"}));
        let patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n*** End Patch\n";
        assert_eq!(body["output"][3]["input"], patch);
        assert_eq!(body["usage"]["input_tokens"], 9);
        assert_eq!(body["usage"]["input_tokens_details"]["cached_tokens"], 2);
    }
    let calls = world.events("gateway.model_call", 2).await;
    assert_eq!((&calls[0]["dialect"], &calls[0]["script_turn"]), (&json!("openai_responses"), &json!(1)));
    assert_eq!((&calls[0]["input_tokens"], &calls[0]["cache_read_tokens"]), (&json!(7), &json!(2)));
    assert!(calls[0]["call_id"].as_str().unwrap().starts_with("call_"), "{}", calls[0]);
    assert_eq!((&calls[0]["cost_usd"], &calls[0]["known_by"]), (&json!(0.0), &json!("usage")));
}

#[tokio::test]
async fn a_streamed_response_has_the_events_in_the_order_that_clients_accept() {
    let world = World::scripted(SCRIPT).await;
    let (_, stream) = world.ask_at("openai/v1/responses", &responses_request(true, &[])).await;
    let events = events(&stream);
    let mut kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    kinds.dedup();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(kinds, expected);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let joined = |kind: &str| {
        let deltas = events.iter().filter(|event| event["type"] == kind);
        deltas.map(|event| event["delta"].as_str().unwrap()).collect::<String>()
    };
    assert_eq!(joined("response.output_text.delta"), "äöü hello");
    let arguments: Value = serde_json::from_str(&joined("response.function_call_arguments.delta")).unwrap();
    assert_eq!(arguments["cmd"], "echo 'hi'");
    let ended = &events.last().unwrap()["response"];
    assert_eq!(ended["output"].as_array().unwrap().len(), 4);
    assert_eq!(ended["usage"]["output_tokens"], 3);
    // Items are the same when they end as in the whole.
    let done: Vec<&Value> =
        events.iter().filter(|e| e["type"] == "response.output_item.done").map(|e| &e["item"]).collect();
    assert_eq!(json!(done), ended["output"]);
}

#[tokio::test]
async fn the_items_of_one_answer_count_as_one_turn() {
    let world = World::scripted(SCRIPT).await;
    let (_, first) = world.ask_at("openai/v1/responses", &responses_request(false, &[])).await;
    let first: Value = serde_json::from_str(&first).unwrap();
    let mut more = first["output"].as_array().unwrap().clone();
    for item in first["output"].as_array().unwrap() {
        if let Some(call_id) = item["call_id"].as_str() {
            let kind = format!("{}_output", item["type"].as_str().unwrap());
            more.push(json!({"type": kind, "call_id": call_id, "output": "it ran"}));
        }
    }
    let (status, second) = world.ask_at("openai/v1/responses", &responses_request(false, &more)).await;
    assert!(status == 200 && second.contains("\"done\""), "{second}");
    let (status, refused) =
        world.ask_at("openai/v1/responses", &json!({"input": "x", "previous_response_id": "resp_1"})).await;
    assert!(status == 400 && refused.contains("whole conversation"), "{refused}");
}

#[tokio::test]
async fn chat_completions_are_spoken_whole_and_streamed() {
    let world = World::scripted(SCRIPT).await;
    let (_, whole) = world.ask_at("openai/v1/chat/completions", &chat_request(false, &[])).await;
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let message = &whole["choices"][0]["message"];
    assert_eq!(
        (&message["content"], &whole["choices"][0]["finish_reason"]),
        (&json!("äöü hello"), &json!("tool_calls"))
    );
    assert_eq!(message["tool_calls"][1]["function"]["name"], "write");
    assert_eq!(whole["usage"]["total_tokens"], 12);

    let mut request = chat_request(true, &[]);
    let (_, stream) = world.ask_at("openai/chat/completions", &request).await;
    assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");
    let chunks = events(&stream);
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk.get("usage").is_none() && chunk["choices"].as_array().unwrap().len() == 1)
    );
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let mut arguments = [String::new(), String::new()];
    for call in chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0].as_object()) {
        let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
        // The first piece of a call names it, the others carry arguments only.
        assert_eq!(arguments[index].is_empty() && call.contains_key("id"), call.contains_key("id"));
        arguments[index].push_str(call["function"]["arguments"].as_str().unwrap());
    }
    let shell: Value = serde_json::from_str(&arguments[0]).unwrap();
    assert_eq!(shell, json!({"command": "echo 'hi'", "description": "Scripted command"}));
    let write: Value = serde_json::from_str(&arguments[1]).unwrap();
    assert_eq!(write, json!({"filePath": "a.txt", "content": "one\n"}));
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");

    request["stream_options"] = json!({"include_usage": true});
    let (_, stream) = world.ask_at("openai/v1/chat/completions", &request).await;
    let chunks = events(&stream);
    let last = chunks.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["prompt_tokens"]), (&json!([]), &json!(9)));
    assert!(chunks[0]["usage"].is_null() && chunks[0].get("usage").is_some());

    let history = [message.clone(), json!({"role": "tool", "tool_call_id": "x", "content": "it ran"})];
    let (status, done) = world.ask_at("openai/v1/chat/completions", &chat_request(false, &history)).await;
    assert!(status == 200 && done.contains("\"done\"") && done.contains("\"stop\""), "{done}");
}

#[tokio::test]
async fn errors_have_the_vendors_shape() {
    let world = World::scripted("- error: {status: 503, type: server_error, message: busy}\n").await;
    for (path, request) in [
        ("openai/v1/responses", responses_request(true, &[])),
        ("openai/v1/chat/completions", chat_request(true, &[])),
    ] {
        let (status, body) = world.ask_at(path, &request).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["error"]["type"]), (503, &json!("server_error")), "{body}");
        assert_eq!((&body["error"]["message"], &body["error"]["param"]), (&json!("busy"), &Value::Null));
        let (status, body) = world.ask_at(path, &json!({"input": 5, "messages": 5})).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["error"]["type"]), (400, &json!("invalid_request_error")), "{body}");
    }
    let (status, body) = world.ask_at("openai/v1/embeddings", &json!({})).await;
    assert!(status == 404 && body.contains("unknown_url") && body.contains("/v1/responses"), "{body}");
    let client = reqwest::Client::new();
    for path in ["openai/v1/models", "openai/models"] {
        let list = client.get(format!("{}/gateway/{path}", world.base)).send().await.unwrap();
        let list: Value = list.json().await.unwrap();
        assert_eq!(list["data"][0]["id"], world.sandbox.model);
    }
    world.caller.lock().unwrap().attempt += 1;
    let (status, body) = world.ask_at("openai/v1/responses", &responses_request(true, &[])).await;
    assert!(status == 403 && body.contains("attempt_superseded") && body.contains("\"param\""), "{body}");
}
