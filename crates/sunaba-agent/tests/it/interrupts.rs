//! An interrupt stops the model call or the command at once, and the conversation stays valid.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sunaba_agent::Ending;
use sunaba_types::MessageType;
use tokio::sync::Semaphore;

use crate::fake_model::{Act, asks, head, says, sse};
use crate::harness::{Harness, Setup, last_blocks, tool_result};

/// Interrupt to idle, as promised, with room for a busy machine.
const SOON: Duration = Duration::from_secs(3);

/// Processes of a group that are not just waiting to be reaped.
pub(crate) fn alive_in_group(group: &str) -> Vec<String> {
    let stats = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            fields[0] != "Z" && fields[2] == group
        })
        .collect()
}

pub(crate) fn group_of(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("pid")).unwrap().trim().to_owned()
}

#[tokio::test]
async fn an_interrupt_ends_the_whole_group_of_a_command() {
    let command = "echo $$ > pid; sleep 300 & (trap '' INT; echo ready; sleep 301)";
    let tools = [("Bash", json!({"command": command})), ("Write", json!({"file_path": "x", "content": "x"}))];
    let mut harness = Harness::start(vec![asks(&tools), says("understood")]).await;
    harness.until_type("agent.tool_output").await;
    let group = group_of(harness.dir.path());
    assert!(alive_in_group(&group).len() >= 3, "the command runs before it is interrupted");

    let began = Instant::now();
    harness.send("message_1", MessageType::Interrupt, "stop, do it differently").await;
    let (_, told) = harness.until_type("agent.interrupted").await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(told["message_id"], "message_1");
    assert_eq!((&told["turn"], &told["reason"]), (&json!(1), &json!("stop, do it differently")));
    assert_eq!(alive_in_group(&group), Vec::<String>::new());

    let outcome = harness.outcome().await;
    assert!(outcome.success());
    let request = &harness.model.requests()[1];
    let (output, is_error) = tool_result(request, "t0");
    assert!(is_error && output.contains("ready") && output.contains("[interrupted]"), "{output}");
    assert_eq!(tool_result(request, "t1"), ("[interrupted before it ran]".to_owned(), true));
    assert!(!harness.dir.path().join("x").exists(), "the second tool never ran");
    let words = last_blocks(request).last().unwrap()["text"].clone();
    assert_eq!(words, "[ada interrupted you] stop, do it differently");
    assert_eq!(harness.told_of("agent.message_injected").len(), 1);
    assert_eq!(harness.told_of("agent.tool_completed").len(), 2);
}

#[tokio::test]
async fn an_interrupt_ends_the_model_call_and_a_message_goes_on() {
    let gone = Arc::new(Semaphore::new(0));
    let block = json!({"type": "text", "text": "half a"});
    let start = sse(&json!({"type": "content_block_start", "index": 0, "content_block": block}));
    let mut harness =
        Harness::start(vec![Act::Stall(head() + &start, Arc::clone(&gone)), says("as you say")]).await;
    harness.until_requests(1).await;
    harness.send("message_1", MessageType::Interrupt, " ").await;
    harness.until_type("agent.waiting").await;
    let closed = tokio::time::timeout(SOON, gone.acquire()).await;
    closed.expect("the model call is closed").unwrap().forget();
    assert_eq!(harness.model.requests().len(), 1, "nothing is sent before somebody speaks");

    harness.send("message_2", MessageType::UserMessage, "now go left").await;
    let outcome = harness.outcome().await;
    assert_eq!(outcome.final_output, "as you say");
    let request = &harness.model.requests()[1];
    let messages = request["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 1, "the half answer is gone, and roles still alternate: {messages:#?}");
    let words: Vec<Value> = last_blocks(request).iter().map(|block| block["text"].clone()).collect();
    let said = "[message from ada while you were working] now go left";
    assert_eq!(words, ["do the thing", "[ada interrupted you]", said]);
    assert_eq!(harness.told_of("agent.message_injected").len(), 2);
}

#[tokio::test]
async fn told_to_end_it_ends_and_leaves_nothing_running() {
    let command = "echo $$ > pid; trap '' INT; echo ready; sleep 300";
    let mut harness = Harness::start(vec![asks(&[("Bash", json!({"command": command}))])]).await;
    harness.until_type("agent.tool_output").await;
    let group = group_of(harness.dir.path());
    harness.shutdown.cancel();
    let outcome = harness.outcome().await;
    assert_eq!(outcome.ending, Ending::Cancelled);
    assert_eq!(alive_in_group(&group), Vec::<String>::new());
}

#[tokio::test]
async fn interrupted_and_left_alone_it_ends() {
    let mut setup = Setup::default();
    setup.config.interrupt_wait = Duration::from_millis(50);
    let acts = vec![Act::Stall(head(), Arc::new(Semaphore::new(0)))];
    let mut harness = Harness::start_with(acts, setup, |_| ()).await;
    harness.until_requests(1).await;
    harness.send("message_1", MessageType::Interrupt, " ").await;
    let outcome = harness.outcome().await;
    assert_eq!(outcome.ending, Ending::Interrupted);
    assert!(!outcome.success());
}

#[tokio::test]
async fn a_process_in_the_background_outlives_its_call_but_not_the_run() {
    let gate = Arc::new(Semaphore::new(0));
    let command = "sleep 300 & echo $$ > pid";
    let last = head() + &crate::fake_model::text(0, "bye") + &crate::fake_model::tail("end_turn");
    let acts = vec![asks(&[("Bash", json!({"command": command}))]), Act::Gated(Arc::clone(&gate), last)];
    let mut harness = Harness::start(acts).await;
    harness.until_type("agent.tool_result").await;
    let group = group_of(harness.dir.path());
    assert_eq!(alive_in_group(&group).len(), 1);
    gate.add_permits(1);
    assert!(harness.outcome().await.success());
    let deadline = Instant::now() + SOON;
    while !alive_in_group(&group).is_empty() {
        assert!(Instant::now() < deadline, "still there: {:?}", alive_in_group(&group));
        tokio::task::yield_now().await;
    }
}
