//! Messages reach a working agent, once, and their fate is known.

use std::sync::Arc;

use serde_json::json;
use sunaba_types::MessageType;
use tokio::sync::Semaphore;

use crate::fake_model::{Act, asks, head, says, tail, text};
use crate::harness::{Harness, Setup, last_blocks};

const WAIT_FOR_GO: &str = "echo ready; until [ -e go ]; do sleep 0.01; done; echo gone";

#[tokio::test]
async fn a_message_during_a_tool_is_in_the_next_request() {
    let acts = vec![asks(&[("Bash", json!({"command": WAIT_FOR_GO}))]), says("done")];
    let mut harness = Harness::start(acts).await;
    harness.until_type("agent.tool_output").await;
    harness.send("message_1", MessageType::UserMessage, "also fix the typo").await;
    std::fs::write(harness.dir.path().join("go"), "").unwrap();

    assert!(harness.outcome().await.success());
    let requests = harness.model.requests();
    assert_eq!(requests.len(), 2);
    let blocks = last_blocks(&requests[1]);
    assert_eq!(blocks[0]["type"], "tool_result");
    assert_eq!(blocks[1]["text"], "[message from ada while you were working] also fix the typo");

    let injected = harness.told_of("agent.message_injected");
    assert_eq!(injected.len(), 1);
    assert_eq!(injected[0]["message_id"], "message_1");
    assert_eq!(injected[0]["message_type"], "user_message");
    assert_eq!(injected[0]["content"], "also fix the typo");
    assert_eq!(injected[0]["content_length"], 17);
    assert_eq!(injected[0]["turn"], 2);
}

#[tokio::test]
async fn a_message_during_the_last_words_starts_another_turn() {
    let gate = Arc::new(Semaphore::new(0));
    let last_words = head() + &text(0, "all done") + &tail("end_turn");
    let mut harness = Harness::start(vec![Act::Gated(Arc::clone(&gate), last_words), says("that too")]).await;
    harness.until_requests(1).await;
    harness.send("message_1", MessageType::Guidance, "and the docs").await;
    gate.add_permits(1);

    let outcome = harness.outcome().await;
    assert_eq!(outcome.final_output, "that too");
    assert!(outcome.undelivered.is_empty());
    let requests = harness.model.requests();
    assert!(!requests[0].to_string().contains("and the docs"), "it came after the call had begun");
    let blocks = last_blocks(&requests[1]);
    assert_eq!(blocks[0]["text"], "[guidance from ada while you were working] and the docs");
    assert_eq!(harness.told_of("agent.message_injected").len(), 1);
}

#[tokio::test]
async fn several_messages_keep_their_order() {
    let acts = vec![asks(&[("Bash", json!({"command": WAIT_FOR_GO}))]), says("done")];
    let mut harness = Harness::start(acts).await;
    harness.until_type("agent.tool_output").await;
    for number in 1..=5 {
        harness.send(&format!("message_{number}"), MessageType::UserMessage, &number.to_string()).await;
    }
    std::fs::write(harness.dir.path().join("go"), "").unwrap();
    harness.outcome().await;
    let ids: Vec<_> = harness
        .told_of("agent.message_injected")
        .into_iter()
        .map(|told| told["message_id"].clone())
        .collect();
    assert_eq!(ids, ["message_1", "message_2", "message_3", "message_4", "message_5"]);
}

#[tokio::test]
async fn a_message_that_no_turn_is_left_for_comes_back() {
    let setup = Setup { max_turns: 1, ..Setup::default() };
    let acts = vec![asks(&[("Bash", json!({"command": WAIT_FOR_GO}))])];
    let mut harness = Harness::start_with(acts, setup, |_| ()).await;
    harness.until_type("agent.tool_output").await;
    harness.send("message_1", MessageType::UserMessage, "too late").await;
    std::fs::write(harness.dir.path().join("go"), "").unwrap();

    let outcome = harness.outcome().await;
    assert_eq!(outcome.stop_reason(), "max_turns");
    assert_eq!(outcome.undelivered.len(), 1);
    assert!(harness.told_of("agent.message_injected").is_empty());
}
