//! Real models behind OpenAI's dialects.

use serde_json::{Value, json};

use crate::support::{Setup, World};
use crate::vendor::Vendor;

fn chat(stream: bool) -> Value {
    json!({"model": "gpt-real", "stream": stream, "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]})
}

fn responses(stream: bool) -> Value {
    json!({"model": "gpt-real", "stream": stream, "max_output_tokens": 100, "input": "hi", "store": false})
}

#[tokio::test]
async fn both_dialects_reach_the_vendor_with_the_real_key_and_are_counted() {
    let vendor = Vendor::new().await;
    let world = World::with_upstream(&vendor.address).await;
    let cases = [
        ("responses", responses(true)),
        ("responses", responses(false)),
        ("chat/completions", chat(true)),
        ("chat/completions", chat(false)),
    ];
    for (path, request) in &cases {
        let url = format!("{}/gateway/openai/v1/{path}", world.base);
        let call = reqwest::Client::new().post(url).bearer_auth("sandbox-token");
        let call =
            call.header("openai-beta", "x").header("openai-organization", "org").header("session-id", "s");
        let answer = call.json(request).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        answer.bytes().await.unwrap();
        let heard = vendor.heard(&format!("/v1/{path}")).pop().unwrap();
        assert_eq!(heard.headers["authorization"], "Bearer real-key");
        assert_eq!(heard.headers["openai-beta"], "x");
        let all = format!("{:?}", heard.headers);
        assert!(
            !all.contains("sandbox-token") && !all.contains("session-id") && !all.contains("org"),
            "{all}"
        );
    }
    let calls = world.events("gateway.model_call", 4).await;
    for (call, (_, request)) in calls.iter().zip(&cases) {
        assert_eq!((&call["output_tokens"], &call["known_by"]), (&json!(100), &json!("usage")), "{call}");
        let input = call["input_tokens"].as_i64().unwrap() + call["cache_read_tokens"].as_i64().unwrap();
        // Between them what the vendor counted: a quarter of the bytes it got.
        assert!(input > 0 && input <= i64::try_from(request.to_string().len()).unwrap(), "{call}");
        assert!(call["cost_usd"].as_f64().unwrap() <= call["reserved_usd"].as_f64().unwrap(), "{call}");
    }
    assert!(calls[0]["cache_read_tokens"].as_u64().unwrap() > 0);
    assert_eq!(world.spent().await, (vendor.charged(), 0));
}

#[tokio::test]
async fn usage_that_the_client_did_not_ask_for_is_counted_and_not_shown() {
    let vendor = Vendor::new().await;
    let world = World::with_upstream(&vendor.address).await;
    let (_, stream) = world.ask_at("openai/v1/chat/completions", &chat(true)).await;
    assert!(stream.contains("hello") && stream.ends_with("data: [DONE]\n\n"), "{stream}");
    assert!(!stream.contains("prompt_tokens"), "{stream}");
    let mut asked = chat(true);
    asked["stream_options"] = json!({"include_usage": true});
    let (_, stream) = world.ask_at("openai/v1/chat/completions", &asked).await;
    assert!(stream.contains("prompt_tokens"), "{stream}");
    let calls = world.events("gateway.model_call", 2).await;
    assert!(
        calls.iter().all(|call| call["known_by"] == "usage" && call["output_tokens"] == 100),
        "{calls:?}"
    );
}

#[tokio::test]
async fn the_list_of_models_is_the_vendors() {
    let vendor = Vendor::new().await;
    let world = World::with_upstream(&vendor.address).await;
    let list = reqwest::get(format!("{}/gateway/openai/v1/models", world.base)).await.unwrap();
    assert_eq!(list.json::<Value>().await.unwrap()["data"][0]["id"], "gpt-real");
    assert_eq!(vendor.heard("/v1/models")[0].headers["authorization"], "Bearer real-key");
}

#[tokio::test]
async fn a_projects_own_key_goes_before_the_servers() {
    let vendor = Vendor::new().await;
    let upstream = Some(vendor.address.clone());
    let world = World::new(Setup { upstream, has_project_key: true, ..Setup::default() }).await;
    world.ask_at("openai/v1/responses", &responses(false)).await;
    world.ask(&json!({"model": "claude-x", "max_tokens": 10, "messages": []})).await;
    assert_eq!(vendor.heard("/v1/responses")[0].headers["authorization"], "Bearer project-key");
    assert_eq!(vendor.heard("/v1/messages")[0].headers["x-api-key"], "project-key");
}

#[tokio::test]
async fn tools_that_the_vendor_would_run_are_left_out_and_links_are_refused() {
    let vendor = Vendor::new().await;
    let world = World::with_upstream(&vendor.address).await;
    let mut request = responses(false);
    request["tools"] = json!([{"type": "function", "name": "exec_command"}, {"type": "web_search"}]);
    assert_eq!(world.ask_at("openai/v1/responses", &request).await.0, 200);
    let sent = &vendor.heard("/v1/responses")[0].body;
    assert_eq!(sent["tools"], json!([{"type": "function", "name": "exec_command"}]));
    let calls = world.events("gateway.model_call", 1).await;
    assert_eq!(calls[0]["removed_tools"], json!(["web_search"]));
    request["input"] =
        json!([{"role": "user", "content": [{"type": "input_image", "image_url": "https://x/?secret"}]}]);
    let (status, body) = world.ask_at("openai/v1/responses", &request).await;
    assert!(status == 400 && body.contains("egress") && body.contains("base64"), "{body}");
    assert_eq!(vendor.heard("/v1/responses").len(), 1, "nothing was sent");
    let linked = json!({"type": "image", "source": {"type": "url", "url": "https://x/?secret"}});
    let counted = json!({"model": "claude-x", "messages": [{"role": "user", "content": [linked]}]});
    let (status, body) = world.ask_at("anthropic/v1/messages/count_tokens", &counted).await;
    assert!(status == 400 && body.contains("egress"), "{body}");
    assert!(vendor.heard("/v1/messages/count_tokens").is_empty());
}

#[tokio::test]
async fn options_that_are_not_known_are_left_out_and_other_models_are_refused() {
    let vendor = Vendor::new().await;
    let world = World::with_upstream(&vendor.address).await;
    let mut request = json!({
        "model": "claude-x", "max_tokens": 10, "messages": [], "sample_twice": true,
        "context_management": {"edits": [{"type": "compact_20260112"}, {"type": "clear_thinking_20251015"}]},
    });
    assert_eq!(world.ask(&request).await.0, 200);
    let sent = &vendor.heard("/v1/messages")[0].body;
    assert_eq!(sent["context_management"], json!({"edits": [{"type": "clear_thinking_20251015"}]}));
    assert!(sent.get("sample_twice").is_none(), "{sent}");
    let calls = world.events("gateway.model_call", 1).await;
    let left_out = json!(["sample_twice", "context_management.compact_20260112"]);
    assert_eq!(calls[0]["removed_fields"], left_out);
    request["fallbacks"] = json!([{"model": "claude-dear"}]);
    let (status, body) = world.ask(&request).await;
    assert!(status == 400 && body.contains("fallbacks: would let another model answer"), "{body}");
    assert_eq!(vendor.heard("/v1/messages").len(), 1, "nothing was sent");
}
