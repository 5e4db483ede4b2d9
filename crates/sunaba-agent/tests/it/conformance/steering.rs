//! Cases in which somebody speaks while the agent works.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sunaba_agent::Ending;
use sunaba_types::MessageType;
use tokio::sync::Semaphore;

use super::stage::{Kind, go, sent, until_file, until_go};
use crate::fake_model::{Act, asks, head, says, sse, tail, text};
use crate::harness::Harness;
use crate::interrupts::{alive_in_group, group_of};

/// Interrupt to idle, as promised, with room for a busy machine.
const SOON: Duration = Duration::from_secs(3);

/// Of what the model was sent: the first request that holds these words.
fn first_request_with(harness: &Harness, words: &str) -> Option<usize> {
    harness.model.requests().iter().position(|request| sent(request).contains(words))
}

pub(super) async fn message_in_a_tool(kind: Kind) {
    let mut harness = kind.start(vec![asks(&[until_go("true")]), says("heard you")]).await;
    until_file(&harness, "ready").await;
    harness.send("message_1", MessageType::UserMessage, "turn left").await;
    let began = Instant::now();
    go(&harness);
    harness.until_requests(2).await;
    println!("{kind:?}: said during a tool, at the model {:?} after that tool was let go", began.elapsed());
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!(
        first_request_with(&harness, "turn left"),
        Some(1),
        "in the first request after its hand-over"
    );
    assert!(sent(&harness.model.requests()[1]).contains("ada"), "the model is told who speaks");
    let injected = &harness.told_of("agent.message_injected")[0];
    assert_eq!((&injected["message_id"], &injected["turn"]), (&json!("message_1"), &json!(2)));
    assert_eq!(outcome.undelivered, []);
}

pub(super) async fn messages_keep_order(kind: Kind) {
    let mut harness = kind.start(vec![asks(&[until_go("true")]), says("heard you"), says("and you")]).await;
    until_file(&harness, "ready").await;
    for number in 1..=3 {
        let id = format!("message_{number}");
        harness.send(&id, MessageType::UserMessage, &format!("word {number}")).await;
    }
    go(&harness);
    assert!(harness.outcome().await.success());
    let ids: Vec<_> =
        harness.told_of("agent.message_injected").iter().map(|told| told["message_id"].clone()).collect();
    assert_eq!(ids, ["message_1", "message_2", "message_3"]);
    let last = sent(harness.model.requests().last().unwrap());
    let at = |word: &str| last.find(word).unwrap_or_else(|| panic!("{word} is not in {last}"));
    assert!(at("word 1") < at("word 2") && at("word 2") < at("word 3"));
}

pub(super) async fn message_at_the_end(kind: Kind) {
    let gate = Arc::new(Semaphore::new(0));
    let last_words = head() + &text(0, "that was all") + &tail("end_turn");
    let acts = vec![Act::Gated(Arc::clone(&gate), last_words), says("one more thing")];
    let mut harness = kind.start(acts).await;
    harness.until_requests(1).await;
    harness.send("message_1", MessageType::UserMessage, "do not stop yet").await;
    gate.add_permits(1);
    let outcome = harness.outcome().await;
    assert_eq!(outcome.final_output, "one more thing");
    assert_eq!(first_request_with(&harness, "do not stop yet"), Some(1));
    assert_eq!(harness.told_of("agent.message_injected")[0]["message_id"], "message_1");
}

pub(super) async fn interrupt_in_a_tool(kind: Kind) {
    let command = "echo $$ > pid; sleep 300 & (trap '' INT TERM; touch ready; sleep 301)";
    let acts = vec![asks(&[("Bash", json!({"command": command}))]), says("understood")];
    let mut harness = kind.start(acts).await;
    until_file(&harness, "ready").await;
    let group = group_of(harness.dir.path());
    assert!(alive_in_group(&group).len() >= 3, "the command runs before it is interrupted");

    let began = Instant::now();
    harness.send("message_1", MessageType::Interrupt, "stop, do it differently").await;
    let (_, told) = harness.until_type("agent.interrupted").await;
    let took = began.elapsed();
    assert_eq!(alive_in_group(&group), Vec::<String>::new(), "told only when nothing is left");
    println!("{kind:?}: interrupted in a tool, seen idle after {took:?}");
    assert!(took < SOON, "{took:?}");
    assert_eq!(told["message_id"], "message_1");

    assert!(harness.outcome().await.success());
    assert_eq!(first_request_with(&harness, "do it differently"), Some(1));
    assert_eq!(harness.told_of("agent.tool_completed")[0]["is_error"], true);
    assert_eq!(harness.told_of("agent.message_injected").len(), 1);
}

pub(super) async fn interrupt_in_a_stream(kind: Kind) {
    let gone = Arc::new(Semaphore::new(0));
    let block = json!({"type": "text", "text": ""});
    let delta = json!({"type": "text_delta", "text": "half a"});
    let half = sse(&json!({"type": "content_block_start", "index": 0, "content_block": block}))
        + &sse(&json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    let mut harness =
        kind.start(vec![Act::Stall(head() + &half, Arc::clone(&gone)), says("as you say")]).await;
    harness.until_requests(1).await;
    let began = Instant::now();
    harness.send("message_1", MessageType::Interrupt, " ").await;
    harness.until_type("agent.waiting").await;
    println!("{kind:?}: interrupted in a stream, seen idle after {:?}", began.elapsed());
    let closed = tokio::time::timeout(SOON, gone.acquire()).await;
    closed.expect("the model call is closed").unwrap().forget();
    assert_eq!(harness.model.requests().len(), 1, "nothing is sent before somebody speaks");

    let began = Instant::now();
    harness.send("message_2", MessageType::UserMessage, "now go left").await;
    harness.until_requests(2).await;
    println!("{kind:?}: said to an idle agent, at the model after {:?}", began.elapsed());
    let outcome = harness.outcome().await;
    assert_eq!(outcome.final_output, "as you say");
    assert_eq!(first_request_with(&harness, "now go left"), Some(1));
    assert_eq!(harness.told_of("agent.message_injected").len(), 2);
}

pub(super) async fn told_to_end(kind: Kind) {
    let command = "echo $$ > pid; trap '' INT TERM; touch ready; sleep 300";
    let mut harness = kind.start(vec![asks(&[("Bash", json!({"command": command}))])]).await;
    until_file(&harness, "ready").await;
    let group = group_of(harness.dir.path());
    harness.shutdown.cancel();
    let outcome = harness.outcome().await;
    assert_eq!(outcome.ending, Ending::Cancelled);
    assert_eq!(alive_in_group(&group), Vec::<String>::new());
}
