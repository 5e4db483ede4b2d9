//! Real models behind Google's dialect.

use axum::Router;
use serde_json::{Value, json};

use crate::support::{Setup, World, listen};
use crate::vendor::Vendor;

const WHOLE: &str = "/v1beta/models/gemini-real:generateContent";
const STREAMED: &str = "/v1beta/models/gemini-real:streamGenerateContent";
const COUNT: &str = "/v1beta/models/gemini-real:countTokens";

fn request(tokens: u64) -> Value {
    json!({
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"maxOutputTokens": tokens, "topK": 64},
    })
}

#[tokio::test]
async fn the_vendor_is_reached_with_the_real_key_and_counted() {
    let vendor = Vendor::new().await;
    let world = World::with_upstream(&vendor.address).await;
    for (path, query) in [(WHOLE, "?key=sandbox-token"), (STREAMED, "?key=sandbox-token&alt=sse")] {
        let url = format!("{}/gateway/google{path}{query}", world.base);
        let call = reqwest::Client::new().post(url).header("x-goog-api-key", "sandbox-token");
        let call = call.header("x-goog-user-project", "payer").header("x-goog-api-client", "sdk/1");
        let answer = call.json(&request(100)).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 200);
        assert!(answer.text().await.unwrap().contains("usageMetadata"));
        let heard = vendor.heard(path).pop().unwrap();
        assert_eq!(heard.headers["x-goog-api-key"], "real-key");
        assert_eq!(heard.headers["x-goog-api-client"], "sdk/1");
        assert_eq!(heard.body, request(100), "it is sent as it came");
        let all = format!("{:?} {:?}", heard.headers, heard.query);
        assert!(!all.contains("sandbox-token") && !all.contains("payer"), "{all}");
    }
    assert_eq!(vendor.heard(STREAMED)[0].query.as_deref(), Some("alt=sse"));
    let calls = world.events("gateway.model_call", 2).await;
    for call in &calls {
        assert_eq!((&call["dialect"], &call["model"]), (&json!("google"), &json!("gemini-real")), "{call}");
        assert_eq!((&call["output_tokens"], &call["known_by"]), (&json!(100), &json!("usage")), "{call}");
        assert!(call["cache_read_tokens"].as_u64().unwrap() > 0, "{call}");
        assert!(call["cost_usd"].as_f64().unwrap() <= call["reserved_usd"].as_f64().unwrap(), "{call}");
    }
    assert_eq!(world.spent().await, (vendor.charged(), 0));
}

#[tokio::test]
async fn what_is_left_of_a_budget_bounds_the_answer_by_the_vendors_own_count() {
    let vendor = Vendor::new().await;
    // Enough for about 400 tokens of answer, a dollar for a million in and ten out.
    let world = World::with_budget(&vendor.address, 0.005).await;
    let (status, body) = world.ask_at(&format!("google{WHOLE}"), &request(10_000)).await;
    assert_eq!(status, 200, "{body}");
    let counted = &vendor.heard(COUNT)[0].body["generateContentRequest"];
    assert_eq!(counted["model"], "models/gemini-real");
    assert_eq!(counted["contents"], request(1)["contents"]);
    let sent = &vendor.heard(WHOLE)[0].body["generationConfig"];
    let bound = sent["maxOutputTokens"].as_u64().unwrap();
    assert!((256..500).contains(&bound) && sent["topK"] == 64, "{sent}");
    let lowered = world.events("gateway.budget", 1).await;
    assert_eq!((&lowered[0]["lowered_from"], &lowered[0]["lowered_to"]), (&json!(10_000), &json!(bound)));
    let (status, body) = world.ask_at(&format!("google{WHOLE}"), &request(10_000)).await;
    assert!(
        status == 400 && body.contains("FAILED_PRECONDITION") && body.contains("raise the budget"),
        "{body}"
    );
}

#[tokio::test]
async fn a_projects_own_key_goes_before_the_servers_and_counting_costs_nothing() {
    let vendor = Vendor::new().await;
    let upstream = Some(vendor.address.clone());
    let world = World::new(Setup { upstream, has_project_key: true, ..Setup::default() }).await;
    let contents = json!({"contents": request(1)["contents"]});
    let (status, body) = world.ask_at(&format!("google{COUNT}"), &contents).await;
    assert!(status == 200 && body.contains("totalTokens"), "{body}");
    assert_eq!(vendor.heard(COUNT)[0].headers["x-goog-api-key"], "project-key");
    let linked = json!({"contents": [{"parts": [{"fileData": {"fileUri": "https://x/?secret"}}]}]});
    let (status, body) = world.ask_at(&format!("google{COUNT}"), &linked).await;
    assert!(status == 400 && body.contains("egress"), "{body}");
    assert_eq!(vendor.heard(COUNT).len(), 1, "nothing was sent");
    assert_eq!(world.spent().await, (0, 0));
}

#[tokio::test]
async fn tools_and_options_beyond_the_gateway_are_left_out_or_refused() {
    let vendor = Vendor::new().await;
    let world = World::with_upstream(&vendor.address).await;
    let functions = json!([{"name": "glob"}]);
    let mut asked = request(10);
    asked["tools"] = json!([{"functionDeclarations": functions}, {"googleSearch": {}}]);
    asked["generationConfig"]["routingConfig"] = json!({});
    asked["labels"] = json!({});
    assert_eq!(world.ask_at(&format!("google{WHOLE}"), &asked).await.0, 200);
    let sent = &vendor.heard(WHOLE)[0].body;
    assert_eq!(sent["tools"], json!([{"functionDeclarations": functions}]));
    assert!(
        sent.get("labels").is_none() && sent["generationConfig"].get("routingConfig").is_none(),
        "{sent}"
    );
    let calls = world.events("gateway.model_call", 1).await;
    assert_eq!(calls[0]["removed_tools"], json!(["googleSearch"]));
    assert_eq!(calls[0]["removed_fields"], json!(["labels", "generationConfig.routingConfig"]));
    for (field, value, word) in [
        ("cachedContent", json!("cachedContents/x"), "cachedContent"),
        ("contents", json!([{"parts": [{"fileData": {"fileUri": "https://x"}}]}]), "base64"),
        ("generationConfig", json!({"responseModalities": ["IMAGE"]}), "only TEXT"),
        ("generationConfig", json!({"candidateCount": 0}), "candidateCount"),
    ] {
        let mut asked = request(10);
        asked[field] = value;
        let (status, body) = world.ask_at(&format!("google{WHOLE}"), &asked).await;
        assert!(status == 400 && body.contains(word), "{body}");
    }
    assert_eq!(vendor.heard(WHOLE).len(), 1, "nothing else was sent");
}

#[tokio::test]
async fn a_limit_whose_end_stands_in_the_error_is_said_and_the_error_passed_on() {
    let words = json!({"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s"}]}});
    let answered = words.clone();
    let router = Router::new().fallback(move || {
        let words = answered.clone();
        async move { (http::StatusCode::TOO_MANY_REQUESTS, axum::Json(words)) }
    });
    let world = World::with_upstream(&listen(router).await).await;
    let (status, body) = world.ask_at(&format!("google{STREAMED}?alt=sse"), &request(10)).await;
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()), (429, words));
    world.events("gateway.quota", 1).await;
    let calls = world.events("gateway.model_call", 1).await;
    assert_eq!((&calls[0]["error"], &calls[0]["known_by"]), (&json!("quota"), &json!("refused")));
    let task = world.store.find_task(world.sandbox.task_id.as_ref().unwrap()).await.unwrap().unwrap();
    assert_eq!(task.status, sunaba_types::TaskState::WaitingQuota);
}
