//! The scripted model in Google's dialect.

use serde_json::{Value, json};

use crate::support::World;

const SCRIPT: &str = "
- thinking: let me see
  text: äöü hello
  tools:
    - shell: echo {{prompt}}
    - write: {path: a.txt, content: \"one\\n\"}
    - edit: {path: a.txt, old: one, new: two}
    - grep: needle
  usage: {input_tokens: 7, output_tokens: 3, cache_read_tokens: 2}
- expect: [{tool_result_contains: it ran}]
  text: done
";
const WHOLE: &str = "google/v1beta/models/gemini-x:generateContent";
const STREAMED: &str = "google/v1beta/models/gemini-x:streamGenerateContent?alt=sse";

fn request(more: &[Value]) -> Value {
    let mut contents = vec![
        json!({"role": "user", "parts": [{"text": "<session_context>\nhere\n</session_context>"}, {"text": "hi"}]}),
    ];
    contents.extend_from_slice(more);
    let tool = |name: &str, keys: &[&str]| {
        let properties: serde_json::Map<_, _> =
            keys.iter().map(|key| ((*key).to_owned(), json!({"type": "string"}))).collect();
        json!({"name": name, "parametersJsonSchema": {"type": "object", "properties": properties}})
    };
    json!({
        "contents": contents,
        "systemInstruction": {"role": "user", "parts": [{"text": "rules"}]},
        "generationConfig": {"temperature": 1},
        "tools": [{"functionDeclarations": [
            tool("run_shell_command", &["command", "description"]),
            tool("write_file", &["file_path", "content"]),
            tool("replace", &["file_path", "instruction", "old_string", "new_string"]),
            tool("grep_search", &["pattern", "dir_path"]),
        ]}],
    })
}

/// The data of each event of a stream.
fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn calls(parts: &[Value]) -> Vec<(String, Value)> {
    let calls = parts.iter().filter_map(|part| part.get("functionCall"));
    calls.map(|call| (call["name"].as_str().unwrap().to_owned(), call["args"].clone())).collect()
}

fn expected_calls() -> Vec<(String, Value)> {
    let shell = json!({"command": "echo 'hi'", "description": "Scripted command"});
    let edit = json!({"file_path": "a.txt", "instruction": "Scripted edit", "old_string": "one", "new_string": "two"});
    vec![
        ("run_shell_command".to_owned(), shell),
        ("write_file".to_owned(), json!({"file_path": "a.txt", "content": "one\n"})),
        ("replace".to_owned(), edit),
        ("grep_search".to_owned(), json!({"pattern": "needle"})),
    ]
}

#[tokio::test]
async fn a_whole_answer_has_the_calls_of_the_turn() {
    let world = World::scripted(SCRIPT).await;
    let (status, body) = world.ask_at(WHOLE, &request(&[])).await;
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let candidate = &body["candidates"][0];
    assert_eq!(
        (&candidate["finishReason"], &candidate["content"]["role"]),
        (&json!("STOP"), &json!("model"))
    );
    let parts = candidate["content"]["parts"].as_array().unwrap();
    assert_eq!(parts[0], json!({"text": "let me see", "thought": true}));
    assert_eq!(parts[1], json!({"text": "äöü hello"}));
    assert_eq!(calls(parts), expected_calls());
    let usage = &body["usageMetadata"];
    assert_eq!((&usage["promptTokenCount"], &usage["totalTokenCount"]), (&json!(9), &json!(12)));
    let result = json!({"functionResponse": {"name": "run_shell_command", "response": {"output": "it ran"}}});
    let more = [candidate["content"].clone(), json!({"role": "user", "parts": [result]})];
    let (status, second) = world.ask_at(WHOLE, &request(&more)).await;
    assert!(status == 200 && second.contains("\"done\""), "{second}");
    let calls = world.events("gateway.model_call", 2).await;
    assert_eq!((&calls[0]["dialect"], &calls[0]["model"]), (&json!("google"), &json!("gemini-x")));
    assert_eq!((&calls[0]["script_turn"], &calls[1]["script_turn"]), (&json!(1), &json!(2)));
    assert_eq!((&calls[0]["input_tokens"], &calls[0]["cache_read_tokens"]), (&json!(7), &json!(2)));
    assert_eq!((&calls[0]["output_tokens"], &calls[0]["known_by"]), (&json!(3), &json!("usage")));
}

#[tokio::test]
async fn a_streamed_answer_comes_in_pieces_and_says_at_the_end_why_it_ended() {
    let world = World::scripted(SCRIPT).await;
    let (status, stream) = world.ask_at(STREAMED, &request(&[])).await;
    assert_eq!(status, 200, "{stream}");
    let events = events(&stream);
    let parts: Vec<Value> = events
        .iter()
        .flat_map(|e| e["candidates"][0]["content"]["parts"].as_array().unwrap().clone())
        .collect();
    let joined = |thought: bool| {
        let texts = parts.iter().filter(|part| (part["thought"] == true) == thought);
        texts.filter_map(|part| part["text"].as_str()).collect::<String>()
    };
    assert_eq!((joined(true), joined(false)), ("let me see".to_owned(), "äöü hello".to_owned()));
    assert_eq!(calls(&parts), expected_calls());
    let ends: Vec<bool> = events.iter().map(|e| e["candidates"][0].get("finishReason").is_some()).collect();
    assert_eq!(ends.iter().position(|ends| *ends), Some(events.len() - 1), "{ends:?}");
    assert_eq!(events.last().unwrap()["usageMetadata"]["candidatesTokenCount"], 3);
    let (status, refused) =
        world.ask_at("google/v1beta/models/gemini-x:streamGenerateContent", &request(&[])).await;
    assert!(status == 400 && refused.contains("alt=sse"), "{refused}");
}

#[tokio::test]
async fn tokens_are_counted_and_nothing_is_recorded() {
    let world = World::scripted(SCRIPT).await;
    let (status, body) = world.ask_at("google/v1beta/models/gemini-x:countTokens", &request(&[])).await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert!(status == 200 && body["totalTokens"].as_u64().unwrap() > 10, "{body}");
    world.events("gateway.model_call", 0).await;
}

#[tokio::test]
async fn errors_have_the_vendors_shape() {
    let world = World::scripted("- error: {status: 503, type: overloaded, message: busy}\n").await;
    let error = async |path: &str, request: &Value| {
        let (status, body) = world.ask_at(path, request).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["error"]["code"], status, "{body}");
        let word = |name: &str| body["error"][name].as_str().unwrap().to_owned();
        (status, word("status"), word("message"))
    };
    for path in [WHOLE, STREAMED] {
        assert_eq!(error(path, &request(&[])).await, (503, "UNAVAILABLE".to_owned(), "busy".to_owned()));
        let (status, word, _) = error(path, &json!({"contents": 5})).await;
        assert_eq!((status, word.as_str()), (400, "INVALID_ARGUMENT"));
    }
    for path in [
        "google/v1beta/models/gemini-x:embedContent",
        "google/v1beta/models/a%2Fb:generateContent",
        "google/x",
    ] {
        let (status, word, message) = error(path, &json!({})).await;
        assert_eq!((status, word.as_str()), (404, "NOT_FOUND"), "{path}");
        assert!(message.contains("generateContent"), "{message}");
    }
    world.caller.lock().unwrap().attempt += 1;
    let (status, word, message) = error(WHOLE, &request(&[])).await;
    assert_eq!((status, word.as_str()), (403, "PERMISSION_DENIED"));
    assert!(message.contains("attempt_superseded"), "{message}");
}
