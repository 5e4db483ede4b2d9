//! A conversation that comes near the model's window goes on in a summary and its last turns.

use std::sync::Arc;

use serde_json::{Value, json};
use sunaba_agent::{ErrorClass, SessionStart};
use sunaba_types::MessageType;
use tokio::sync::Semaphore;

use crate::fake_model::{Act, asks, head, head_after, says, tail, text, tool_with};
use crate::harness::{Harness, Setup, tool_result};

/// A window of which an answer to 17,000 tokens leaves too little.
fn small_window() -> Setup {
    let mut setup = Setup::default();
    setup.config.context_window = 20_000;
    setup.config.max_tokens = 2_000;
    setup
}

fn step(id: &str, command: &str, input_tokens: u64) -> Act {
    let call = tool_with(0, id, "Bash", &json!({"command": command}).to_string());
    Act::Stream(head_after(input_tokens) + &call + &tail("tool_use"))
}

fn too_long() -> Act {
    let message = "prompt is too long: 213462 tokens > 200000 maximum";
    Act::Plain(400, "", json!({"error": {"type": "invalid_request_error", "message": message}}))
}

fn texts(message: &Value) -> Vec<&str> {
    message["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect()
}

/// The first message is the task and the summary, and the last turn follows as it was.
fn assert_goes_on_in_short(request: &Value, summary: &str, kept: &str) {
    let messages = request["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{messages:#?}");
    let words = texts(&messages[0]);
    assert_eq!(words[0], "do the thing");
    assert!(words[1].ends_with(summary), "{words:?}");
    assert_eq!(messages[1]["content"][0]["id"], kept);
    assert_eq!(messages[2]["content"][0]["tool_use_id"], kept);
}

#[tokio::test]
async fn near_the_window_it_goes_on_in_a_summary_and_the_last_turn() {
    let filler = "head -c 6000 /dev/zero | tr '\\0' x";
    let acts = vec![
        step("a", "echo early", 100),
        step("b", filler, 9_000),
        step("c", "head -c 9000 /dev/zero | tr '\\0' y; echo late", 17_000),
        says("what happened in short"),
        says("done"),
    ];
    let mut harness = Harness::start_with(acts, small_window(), |_| ()).await;
    let outcome = harness.outcome().await;
    assert!(outcome.success());
    assert_eq!(outcome.turns, 4, "summing up is no turn");
    let requests = harness.model.requests();
    assert_eq!(requests.len(), 5);

    let asked = &requests[3];
    assert!(asked.get("tools").is_none() && asked.get("thinking").is_none());
    let record = asked["messages"][0]["content"][0]["text"].as_str().unwrap();
    for part in ["[told] do the thing", "[uses Bash] {\"command\":\"echo early\"}", "[result] early"] {
        assert!(record.contains(part), "{part} is not in {record}");
    }
    assert!(!record.contains("late"), "the last turn stays as it is");
    assert_goes_on_in_short(&requests[4], "what happened in short", "c");
    assert!(tool_result(&requests[4], "c").0.ends_with("late\n"));

    let told = &harness.told_of("agent.system_message")[0];
    let metadata = &told["metadata"];
    assert_eq!((&told["turn"], &metadata["subtype"]), (&json!(4), &json!("compacted")));
    assert_eq!((&metadata["messages_before"], &metadata["messages_after"]), (&json!(7), &json!(3)));
    assert!(metadata["tokens_after"].as_u64() < metadata["tokens_before"].as_u64(), "{metadata}");

    let session = SessionStart::Resume { transcript: outcome.transcript.unwrap() };
    let mut after =
        Harness::start_with(vec![says("and on")], Setup { session, ..Setup::default() }, |_| ()).await;
    assert!(after.outcome().await.success());
    let messages = after.model.requests()[0]["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 5, "what was saved goes on in short too");
}

#[tokio::test]
async fn a_window_smaller_than_thought_is_found_out() {
    let acts = vec![
        step("a", "echo one", 10),
        step("b", "echo two", 10),
        too_long(),
        says("in short"),
        says("done"),
    ];
    let mut harness = Harness::start(acts).await;
    assert!(harness.outcome().await.success());
    let requests = harness.model.requests();
    assert_goes_on_in_short(&requests[4], "in short", "b");
    assert_eq!(harness.told_of("agent.system_message")[0]["metadata"]["trigger"], "refused");
}

#[tokio::test]
async fn what_was_found_out_about_the_window_counts_from_then_on() {
    let acts = vec![
        step("a", "echo one", 10),
        step("b", "echo two", 10),
        too_long(),
        too_long(),
        says("in short"),
        step("c", "echo three", 4_500),
        says("shorter"),
        says("done"),
    ];
    let mut harness = Harness::start_with(acts, small_window(), |_| ()).await;
    assert!(harness.outcome().await.success(), "summing up can be too long as well");
    let requests = harness.model.requests();
    assert_goes_on_in_short(&requests[5], "in short", "b");
    assert_goes_on_in_short(&requests[7], "shorter", "c");
    let told = harness.told_of("agent.system_message");
    let triggers: Vec<_> = told.iter().map(|told| told["metadata"]["trigger"].clone()).collect();
    assert_eq!(triggers, ["refused", "nearly_full"], "4,500 tokens are much for a window of 5,000");
}

#[tokio::test]
async fn a_last_turn_that_alone_is_too_long_is_cut() {
    let read = asks(&[("Read", json!({"file_path": "long.txt"}))]);
    let mut harness = Harness::start_with(vec![read, too_long(), says("done")], small_window(), |dir| {
        std::fs::write(dir.join("long.txt"), "0123456789\n".repeat(5_000)).unwrap();
    })
    .await;
    assert!(harness.outcome().await.success());
    let length = |request: &Value| tool_result(request, "t0").0.chars().count();
    let requests = harness.model.requests();
    assert!(length(&requests[1]) > 14_000 && length(&requests[2]) < 6_500, "{}", length(&requests[2]));
}

#[tokio::test]
async fn what_cannot_be_made_shorter_ends_the_run() {
    let mut harness = Harness::start(vec![too_long(), says("never")]).await;
    let error = harness.outcome().await.error().unwrap();
    assert_eq!(error.class, ErrorClass::InvalidRequest);
    assert_eq!(harness.model.requests().len(), 1, "there is no past to sum up");

    let acts = vec![step("a", "true", 10), step("b", "true", 10), too_long(), says("in short"), too_long()];
    let mut harness = Harness::start(acts).await;
    assert_eq!(harness.outcome().await.error().unwrap().class, ErrorClass::InvalidRequest);
    assert_eq!(harness.model.requests().len(), 5, "once is enough");
}

#[tokio::test]
async fn results_of_one_turn_have_a_share_of_the_window_and_no_more() {
    let read = || ("Read", json!({"file_path": "long.txt"}));
    let acts = vec![asks(&[read(), read(), ("Bash", json!({"command": "echo short"}))]), says("done")];
    let mut harness = Harness::start_with(acts, small_window(), |dir| {
        std::fs::write(dir.join("long.txt"), "0123456789\n".repeat(5_000)).unwrap();
    })
    .await;
    assert!(harness.outcome().await.success());
    let request = &harness.model.requests()[1];
    let lengths: Vec<usize> =
        (0..3).map(|at| tool_result(request, &format!("t{at}")).0.chars().count()).collect();
    assert!(lengths[..2].iter().all(|length| (7_000..7_600).contains(length)), "{lengths:?}");
    assert_eq!(tool_result(request, "t2").0, "short\n");
}

#[tokio::test]
async fn an_interrupt_ends_the_summing_up_too() {
    let gone = Arc::new(Semaphore::new(0));
    let acts = vec![
        step("a", "echo one", 100),
        step("b", "echo two", 17_000),
        Act::Stall(head() + &text(0, "half a summary"), Arc::clone(&gone)),
        says("in short"),
        says("as you say"),
    ];
    let mut harness = Harness::start_with(acts, small_window(), |_| ()).await;
    harness.until_requests(3).await;
    harness.send("message_1", MessageType::Interrupt, "look here").await;
    assert_eq!(harness.outcome().await.final_output, "as you say");
    gone.acquire().await.unwrap().forget();
    let last = harness.model.requests()[4].clone();
    assert!(last.to_string().contains("[ada interrupted you] look here"), "{last:#?}");
    assert!(!last.to_string().contains("half a summary"));
}
