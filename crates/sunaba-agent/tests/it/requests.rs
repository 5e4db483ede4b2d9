//! What a model call asks for: thinking, cached prefixes, pauses that the other side wants; and tools side by side.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sunaba_agent::Thinking;

use crate::fake_model::{Act, asks, head, says, tail, thinking, tool_with};
use crate::harness::{Harness, Setup, last_blocks, tool_result};

fn refused(message: &str) -> Act {
    Act::Plain(400, "", json!({"error": {"type": "invalid_request_error", "message": message}}))
}

fn marks(value: &Value) -> usize {
    value.to_string().matches("cache_control").count()
}

#[tokio::test]
async fn prefixes_are_cached_in_four_places_at_most() {
    let look = || asks(&[("Glob", json!({"pattern": "*"})), ("Glob", json!({"pattern": "*"}))]);
    let mut harness = Harness::start(vec![look(), look(), look(), says("done")]).await;
    assert!(harness.outcome().await.success());
    let requests = harness.model.requests();
    assert_eq!(requests.len(), 4);
    for (number, request) in requests.iter().enumerate() {
        assert_eq!((marks(&request["tools"]), marks(&request["system"])), (1, 1));
        let tools = request["tools"].as_array().unwrap();
        assert_eq!(marks(tools.last().unwrap()), 1, "the last tool ends the prefix of all of them");
        assert_eq!(marks(&request["messages"]), 2.min(number + 1));
        assert_eq!(marks(last_blocks(request).last().unwrap()), 1);
    }
}

#[tokio::test]
async fn thoughts_are_asked_for_and_go_back_as_they_came() {
    let thought = head()
        + &thinking(0, "let me see")
        + &tool_with(1, "t0", "Glob", r#"{"pattern": "*"}"#)
        + &tail("tool_use");
    let mut setup = Setup::default();
    setup.config.thinking = Some(Thinking::Enabled { budget_tokens: 2_000 });
    let mut harness = Harness::start_with(vec![Act::Stream(thought), says("done")], setup, |_| ()).await;
    assert!(harness.outcome().await.success());
    let requests = harness.model.requests();
    assert_eq!(requests[0]["thinking"], json!({"type": "enabled", "budget_tokens": 2_000}));
    let returned = &requests[1]["messages"][1]["content"][0];
    assert_eq!(*returned, json!({"type": "thinking", "thinking": "let me see", "signature": "signed"}));
}

#[tokio::test]
async fn a_model_that_thinks_otherwise_or_not_at_all_is_asked_so() {
    let otherwise = refused("\"thinking.type.enabled\" is not supported. Use \"thinking.type.adaptive\".");
    let not_at_all = refused("this model does not support thinking");
    let acts = vec![otherwise, not_at_all, asks(&[("Glob", json!({"pattern": "*"}))]), says("done")];
    let mut harness = Harness::start(acts).await;
    assert!(harness.outcome().await.success());
    let asked: Vec<Value> =
        harness.model.requests().iter().map(|request| request["thinking"].clone()).collect();
    assert_eq!(asked[0]["type"], "enabled");
    assert_eq!(asked[1], json!({"type": "adaptive"}));
    assert_eq!(asked[2..], [Value::Null, Value::Null], "and it stays so");
}

#[tokio::test]
async fn a_limit_that_is_used_up_is_waited_for() {
    let headers = "date: Mon, 16 Nov 2026 12:00:00 GMT\r\n\
anthropic-ratelimit-tokens-remaining: 0\r\nanthropic-ratelimit-tokens-reset: 2026-11-16T12:00:01Z\r\n";
    let busy = Act::Plain(429, headers, json!({"error": {"type": "rate_limit_error", "message": "no"}}));
    let began = Instant::now();
    let mut harness = Harness::start(vec![busy, says("well")]).await;
    assert!(harness.outcome().await.success());
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn results_stand_in_the_order_of_the_calls_and_a_write_is_seen_by_what_follows() {
    let read = || ("Read", json!({"file_path": "a.txt"}));
    let write = |content: &str| ("Write", json!({"file_path": "a.txt", "content": content}));
    let mut tools = vec![read(), write("one\n"), read(), read(), write("two\n")];
    tools.extend((0..20).map(|_| read()));
    let mut harness = Harness::start_in(vec![asks(&tools), says("done")], |dir| {
        std::fs::write(dir.join("a.txt"), "zero\n").unwrap();
    })
    .await;
    assert!(harness.outcome().await.success());
    let request = &harness.model.requests()[1];
    assert_eq!(request["messages"].as_array().unwrap().len(), 3, "all results are in one message");
    let ids: Vec<String> =
        last_blocks(request).iter().map(|block| block["tool_use_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, (0..25).map(|number| format!("t{number}")).collect::<Vec<_>>());
    for (number, seen) in [(0, "zero"), (2, "one"), (3, "one"), (5, "two"), (24, "two")] {
        let (content, _) = tool_result(request, &format!("t{number}"));
        assert!(content.contains(seen), "t{number}: {content}");
    }
}
