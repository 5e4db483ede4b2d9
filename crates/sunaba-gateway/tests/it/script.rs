use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sunaba_engine::SandboxTrigger;
use sunaba_store::SandboxChange;

use crate::support::{World, request};

/// The data of each event of a stream.
fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn hi() -> Value {
    json!([{"role": "user", "content": "hi"}])
}

#[tokio::test]
async fn turns_follow_the_conversation_and_survive_a_retry() {
    let world = World::scripted(
        "- text: looking\n  tools: [{shell: ls}]\n  usage: {input_tokens: 7, output_tokens: 3}\n- text: done\n",
    )
    .await;
    for _ in 0..2 {
        let (status, body) = world.ask(&request(hi())).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(status, 200);
        assert_eq!(body["content"][0], json!({"type": "text", "text": "looking"}));
        assert_eq!(body["content"][1]["name"], "Bash");
        assert_eq!(body["content"][1]["input"], json!({"command": "ls"}));
        assert_eq!((&body["stop_reason"], &body["model"]), (&json!("tool_use"), &json!("claude-x")));
    }
    let mut history = hi();
    let more = json!([
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "README.md"}]},
    ]);
    history.as_array_mut().unwrap().extend(more.as_array().unwrap().clone());
    let (_, body) = world.ask(&request(history)).await;
    assert!(body.contains("\"done\"") && body.contains("end_turn"), "{body}");
    let calls = world.events("gateway.model_call", 3).await;
    assert_eq!((&calls[0]["input_tokens"], &calls[0]["output_tokens"]), (&json!(7), &json!(3)));
    assert_eq!((&calls[0]["status"], &calls[0]["script_turn"]), (&json!(200), &json!(1)));
    assert_eq!((&calls[2]["message_count"], &calls[2]["script_turn"]), (&json!(3), &json!(2)));
    assert_eq!(calls[0]["dialect"], "anthropic");
}

#[tokio::test]
async fn a_stream_put_together_is_the_turn() {
    let world = World::scripted(
        "- thinking: let me see\n  text: äöü hello world\n  tools: [{write: {path: a.txt, content: '{{prompt}}'}}]\n  delay_ms: 30\n  chunk_delay_ms: 1\n",
    )
    .await;
    let mut body = request(hi());
    body["stream"] = json!(true);
    let (status, stream) = world.ask(&body).await;
    assert_eq!(status, 200);
    let events = events(&stream);
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((types[0], types[types.len() - 1]), ("message_start", "message_stop"));
    let collect = |index: usize, key: &str| {
        let deltas = events.iter().filter(|e| e["type"] == "content_block_delta" && e["index"] == index);
        deltas.filter_map(|event| event["delta"][key].as_str()).collect::<Vec<_>>().concat()
    };
    assert_eq!(collect(0, "thinking"), "let me see");
    assert!(!collect(0, "signature").is_empty());
    assert_eq!(collect(1, "text"), "äöü hello world");
    let input: Value = serde_json::from_str(&collect(2, "partial_json")).unwrap();
    assert_eq!(input, json!({"file_path": "a.txt", "content": "hi"}));
    assert!(types.iter().filter(|kind| **kind == "content_block_delta").count() > 6, "a few pieces each");
    let end = &events[events.len() - 2];
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert!(end["usage"]["output_tokens"].as_u64().unwrap() > 0);
    let calls = world.events("gateway.model_call", 1).await;
    assert!(calls[0]["first_byte_ms"].as_u64().unwrap() >= 30, "{}", calls[0]);
    assert_eq!(calls[0]["error"], Value::Null);
}

#[tokio::test]
async fn a_failed_expectation_fails_the_call_for_good_and_is_recorded() {
    let world =
        World::scripted("- text: x\n  expect:\n    - contains: hi\n    - last_user_contains: magic\n").await;
    let (status, body) = world.ask(&request(hi())).await;
    assert_eq!(status, 400);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("turn 1") && message.contains("magic"), "{message}");
    let calls = world.events("gateway.model_call", 1).await;
    assert_eq!((&calls[0]["error"], &calls[0]["status"]), (&json!(message), &json!(400)));
}

#[tokio::test]
async fn side_calls_do_not_use_main_turns_up() {
    let world =
        World::scripted("- text: main\n- {text: a title, when: {no_tools: true, system_contains: title}}\n")
            .await;
    let mut side = request(hi());
    side["tools"] = json!([]);
    side["system"] = json!([{"type": "text", "text": "Write a title."}]);
    assert!(world.ask(&side).await.1.contains("a title"));
    assert!(world.ask(&request(hi())).await.1.contains("\"main\""));
}

#[tokio::test]
async fn an_error_turn_is_given_its_times_and_then_the_rest() {
    let world = World::scripted(
        "- text: recovered\n  error: {status: 529, type: overloaded_error, message: busy, times: 2}\n",
    )
    .await;
    for _ in 0..2 {
        let (status, body) = world.ask(&request(hi())).await;
        assert_eq!(status, 529);
        assert!(body.contains("overloaded_error") && body.contains("busy"), "{body}");
    }
    assert!(world.ask(&request(hi())).await.1.contains("recovered"));
    let calls = world.events("gateway.model_call", 3).await;
    assert_eq!((&calls[1]["status"], &calls[1]["error"]), (&json!(529), &json!("busy")));
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_call() {
    let world = World::scripted("- text: too late\n  delay_ms: 60000\n").await;
    for stream in [false, true] {
        let mut body = request(hi());
        body["stream"] = json!(stream);
        let impatient = tokio::time::timeout(Duration::from_millis(200), world.ask(&body)).await;
        assert!(impatient.is_err(), "the model answered");
    }
    let started = Instant::now();
    let calls = world.events("gateway.model_call", 2).await;
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(calls.iter().all(|call| call["error"].as_str().unwrap().contains("went away")), "{calls:?}");
}

#[tokio::test]
async fn the_built_in_script_writes_the_prompt_and_says_what_it_is() {
    let world = World::with_model("script:default").await;
    let mut history = hi();
    let mut answers = Vec::new();
    for _ in 0..4 {
        let (_, body) = world.ask(&request(history.clone())).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        let turn =
            json!([{"role": "assistant", "content": body["content"]}, {"role": "user", "content": "go on"}]);
        history.as_array_mut().unwrap().extend(turn.as_array().unwrap().clone());
        answers.push(body);
    }
    assert!(answers[0]["content"][2]["input"]["command"].as_str().unwrap().contains("git log"));
    let file = &answers[1]["content"][1]["input"];
    assert_eq!(file["file_path"], "SUNABA.md");
    assert!(file["content"].as_str().unwrap().contains("hi"), "{file}");
    assert!(answers[2]["content"][0]["text"].as_str().unwrap().contains("scripted model"));
    assert_eq!(
        (&answers[2]["stop_reason"], &answers[3]["stop_reason"]),
        (&json!("end_turn"), &json!("end_turn"))
    );
}

#[tokio::test]
async fn wrong_and_missing_scripts_are_said_plainly() {
    for (model, word) in [
        ("script:nothing".to_owned(), "names no stored script"),
        (format!("script:{}", "a".repeat(64)), "cannot be read"),
        ("claude-x".to_owned(), "ANTHROPIC_API_KEY"),
    ] {
        let world = World::with_model(&model).await;
        let (status, body) = world.ask(&request(hi())).await;
        assert_eq!(status, 400, "{body}");
        assert!(body.contains(word), "{body}");
        world.events("gateway.model_call", 1).await;
    }
    let world = World::scripted("- txet: x\n").await;
    let (status, body) = world.ask(&request(hi())).await;
    assert!(status == 400 && body.contains("line 1") && body.contains("txet"), "{body}");
}

#[tokio::test]
async fn an_ended_sandbox_gets_no_more_answers() {
    let world = World::with_model("script:default").await;
    let cancel = SandboxChange { trigger: Some(SandboxTrigger::Cancel), ..SandboxChange::default() };
    world.store.change_sandbox(&world.sandbox.id, cancel).await.unwrap();
    let (status, body) = world.ask(&request(hi())).await;
    assert!(status == 403 && body.contains("permission_error") && body.contains("cancelled"), "{body}");
}

#[tokio::test]
async fn the_other_routes_answer_as_clients_expect() {
    let world = World::with_model("script:default").await;
    let client = reqwest::Client::new();
    let base = format!("{}/gateway/anthropic", world.base);
    for url in [base.clone(), format!("{base}/")] {
        assert_eq!(client.head(&url).send().await.unwrap().status().as_u16(), 200, "{url}");
        assert_eq!(client.get(&url).send().await.unwrap().status().as_u16(), 200, "{url}");
    }
    let count =
        client.post(format!("{base}/v1/messages/count_tokens")).json(&request(hi())).send().await.unwrap();
    assert!(count.json::<Value>().await.unwrap()["input_tokens"].as_u64().unwrap() > 10);
    let unknown = client.get(format!("{base}/v1/models")).send().await.unwrap();
    assert_eq!(unknown.status().as_u16(), 404);
    assert_eq!(unknown.json::<Value>().await.unwrap()["error"]["type"], "not_found_error");
    let (status, body) = world.ask(&json!({"messages": "no"})).await;
    assert!(status == 400 && body.contains("messages"), "{body}");
}

#[tokio::test]
async fn one_tool_for_all_files_is_told_what_to_do() {
    let script = "- tools: [{write: {path: a.txt, content: x}}, {edit: {path: /w/a.txt, old: x, new: y}}, {read: b.txt}]\n";
    let world = World::scripted(script).await;
    let keys = ["command", "file_text", "old_str", "new_str"];
    let mut properties: serde_json::Map<_, _> =
        keys.iter().map(|key| ((*key).to_owned(), json!({"type": "string"}))).collect();
    properties.insert("path".to_owned(), json!({"type": "string", "description": "Absolute path to file."}));
    let schema = json!({"type": "object", "properties": properties});
    let mut body = request(hi());
    body["tools"] = json!([{"name": "file_editor", "input_schema": schema}]);
    let (status, answer) = world.ask(&body).await;
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let calls: Vec<_> =
        answer["content"].as_array().unwrap().iter().map(|call| call["input"].clone()).collect();
    assert_eq!(
        calls,
        [
            json!({"command": "create", "path": "/workspace/a.txt", "file_text": "x"}),
            json!({"command": "str_replace", "path": "/w/a.txt", "old_str": "x", "new_str": "y"}),
            json!({"command": "view", "path": "/workspace/b.txt"}),
        ]
    );
}
