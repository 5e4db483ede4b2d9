//! A conversation is taken up where it was left, wherever that was.

use serde_json::{Value, json};
use sunaba_agent::{ErrorClass, SessionStart, Transcript};
use sunaba_types::MessageType;

use crate::fake_model::{Act, asks, head, says, tail, text, thinking, tool_with};
use crate::harness::{Harness, SESSION, Setup, last_blocks, tool_result};

const WAIT_FOR_GO: &str = "echo begun; until [ -e go ]; do sleep 0.01; done";

fn going_on(transcript: Transcript) -> Setup {
    Setup { session: SessionStart::Resume { transcript }, ..Setup::default() }
}

/// What a transcript says, line by line.
fn lines(transcript: &Transcript) -> Vec<Value> {
    let text = std::str::from_utf8(transcript.as_bytes()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The messages of a request without the marks of the cache, which move on with every turn.
fn said(request: &Value) -> Vec<Value> {
    let mut messages = request["messages"].as_array().unwrap().clone();
    for message in &mut messages {
        for block in message["content"].as_array_mut().unwrap() {
            block.as_object_mut().unwrap().remove("cache_control");
        }
    }
    messages
}

#[tokio::test]
async fn a_finished_session_goes_on_with_all_that_was_said() {
    let first = head()
        + &thinking(0, "let me see")
        + &tool_with(1, "t0", "Write", r#"{"file_path": "a", "content": "x"}"#)
        + &tail("tool_use");
    let mut before = Harness::start(vec![Act::Stream(first), says("written")]).await;
    let transcript = before.outcome().await.transcript.unwrap();
    assert_eq!(transcript, before.transcript(), "what the outcome holds is what is on disk");
    let head = json!({"type": "session", "version": 1, "session_id": SESSION});
    assert_eq!(lines(&transcript)[0], head);

    let mut after = Harness::start_with(vec![says("gone on")], going_on(transcript), |_| ()).await;
    let outcome = after.outcome().await;
    assert_eq!((outcome.session_id.as_str(), outcome.final_output.as_str()), (SESSION, "gone on"));
    let (earlier, request) = (&before.model.requests()[1], &after.model.requests()[0]);
    let messages = said(request);
    assert_eq!(messages[..3], said(earlier)[..], "thoughts, tools and results are as they were");
    assert_eq!(messages[3]["content"][0]["text"], "written");
    assert_eq!(messages[4]["content"][0]["text"], "do the thing");

    let third = outcome.transcript.unwrap();
    let mut last = Harness::start_with(vec![says("and on")], going_on(third), |_| ()).await;
    assert!(last.outcome().await.success());
    assert_eq!(said(&last.model.requests()[0])[..5], messages[..], "and so on");
}

#[tokio::test]
async fn what_was_killed_in_a_tool_goes_on_after_it() {
    let acts = vec![
        asks(&[("Write", json!({"file_path": "a", "content": "x"}))]),
        asks(&[("Bash", json!({"command": WAIT_FOR_GO})), ("Glob", json!({"pattern": "*"}))]),
    ];
    let mut killed = Harness::start(acts).await;
    killed.until_type("agent.tool_output").await;
    let transcript = killed.transcript();
    killed.shutdown.cancel();
    killed.outcome().await;

    let mut after = Harness::start_with(vec![says("well")], going_on(transcript), |_| ()).await;
    assert!(after.outcome().await.success());
    let request = &after.model.requests()[0];
    assert_eq!(said(request)[2]["content"][0]["content"], "created a (1 lines)", "the turn before is whole");
    for id in ["t0", "t1"] {
        let (content, is_error) = tool_result(request, id);
        assert!(is_error && content.contains("interrupted"), "{content}");
    }
    assert_eq!(last_blocks(request).last().unwrap()["text"], "do the thing");
}

#[tokio::test]
async fn what_was_killed_in_a_model_call_has_what_was_said_until_then() {
    let gone = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let acts =
        vec![asks(&[("Bash", json!({"command": WAIT_FOR_GO}))]), Act::Stall(head() + &text(0, "half"), gone)];
    let mut killed = Harness::start(acts).await;
    killed.until_type("agent.tool_output").await;
    killed.send("message_1", MessageType::UserMessage, "also this").await;
    std::fs::write(killed.dir.path().join("go"), "").unwrap();
    killed.until_requests(2).await;
    let transcript = killed.transcript();
    killed.shutdown.cancel();
    killed.outcome().await;

    let mut after = Harness::start_with(vec![says("well")], going_on(transcript), |_| ()).await;
    assert!(after.outcome().await.success());
    let blocks = last_blocks(&after.model.requests()[0]);
    let words: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    assert_eq!(words, ["[message from ada while you were working] also this", "do the thing"]);
}

#[tokio::test]
async fn a_fork_leaves_the_first_one_as_it_was() {
    let mut first = Harness::start(vec![says("one way")]).await;
    let transcript = first.outcome().await.transcript.unwrap();
    let session = SessionStart::Fork { from: "the first".to_owned(), transcript: transcript.clone() };
    let mut fork =
        Harness::start_with(vec![says("another way")], Setup { session, ..Setup::default() }, |_| ()).await;
    let outcome = fork.outcome().await;
    let head = lines(&outcome.transcript.unwrap())[0].clone();
    assert_eq!((&head["session_id"], &head["forked_from"]), (&json!(SESSION), &json!("the first")));
    assert_eq!(said(&fork.model.requests()[0])[1]["content"][0]["text"], "one way");
    assert_eq!(first.transcript(), transcript);
}

#[tokio::test]
async fn a_transcript_of_something_else_is_refused() {
    let foreign = Transcript::new(b"{\"type\":\"queue-operation\"}\n".to_vec());
    let mut harness = Harness::start_with(vec![says("hello")], going_on(foreign), |_| ()).await;
    let error = harness.outcome().await.error().unwrap();
    assert_eq!(error.class, ErrorClass::Configuration);
    assert!(error.message.contains("not a transcript of the native runtime"), "{error}");
    assert_eq!(harness.model.requests().len(), 0);
}

#[tokio::test]
async fn a_disk_that_takes_nothing_is_told_and_ends_nothing() {
    let home = tempfile::TempDir::new().unwrap();
    std::fs::write(home.path().join("sessions"), "not a directory").unwrap();
    let setup = Setup { home: Some(home.path().to_owned()), ..Setup::default() };
    let mut harness = Harness::start_with(vec![says("done")], setup, |_| ()).await;
    let outcome = harness.outcome().await;
    assert!(outcome.success() && outcome.transcript.is_none());
    let told = harness.told_of("agent.system_message");
    assert_eq!((told.len(), &told[0]["metadata"]["subtype"]), (1, &json!("session_not_saved")));
}
