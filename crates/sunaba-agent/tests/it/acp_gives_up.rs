//! An agent that gives a turn up: a cut answer goes on, anything else is the end, and no message is lost by it.

use serde_json::json;
use sunaba_agent::ErrorClass;
use sunaba_types::MessageType;
use tempfile::TempDir;

use crate::acp::{stand_in, start};
use crate::conformance::stage::until_file;

#[tokio::test]
async fn an_answer_that_was_cut_goes_on_with_what_was_said_meanwhile() {
    let place = TempDir::new().unwrap();
    let rest = r#"
say half; touch ready; while [ ! -e go ]; do sleep 0.05; done
update '{"sessionUpdate":"usage_update","used":1,"size":2}'
refuse "$id" 'the stream was closed'
read -r prompt; printf '%s\n' "$prompt" > second
say whole; answer "$(number "$prompt")" '{"stopReason":"end_turn"}'; cat >/dev/null
"#;
    let mut harness = start(stand_in(place.path(), rest)).await;
    until_file(&harness, "ready").await;
    harness.send("message_1", MessageType::UserMessage, "and then left").await;
    std::fs::write(harness.dir.path().join("go"), "").unwrap();
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!(outcome.final_output, "whole");
    let heard = std::fs::read_to_string(harness.dir.path().join("second")).unwrap();
    let (remark, message) = (heard.find("Go on from where you were"), heard.find("and then left"));
    assert!(remark.is_some() && remark < message, "{heard}");
    let told = &harness.told_of("agent.stream_error")[0];
    assert_eq!(told["retrying"], json!(true));
    assert_eq!(harness.told_of("agent.message_injected").len(), 1);
}

#[tokio::test]
async fn one_that_gets_no_further_is_not_asked_for_ever() {
    let place = TempDir::new().unwrap();
    let rest = r#"
while say half; refuse "$id" 'the stream was closed'; read -r prompt; do id=$(number "$prompt"); done
"#;
    let mut harness = start(stand_in(place.path(), rest)).await;
    let outcome = harness.outcome().await;
    assert_eq!(outcome.error().unwrap().class, ErrorClass::Network);
    assert_eq!(harness.told_of("agent.stream_error").len(), 5, "asked so often");
}

#[tokio::test]
async fn a_message_that_is_given_up_before_the_model_heard_it_comes_back() {
    let place = TempDir::new().unwrap();
    let rest = r#"
say one; touch ready; while [ ! -e go ]; do sleep 0.05; done
answer "$id" '{"stopReason":"end_turn"}'
read -r prompt; refuse "$(number "$prompt")" 'nobody answers'; cat >/dev/null
"#;
    let mut harness = start(stand_in(place.path(), rest)).await;
    until_file(&harness, "ready").await;
    harness.send("message_1", MessageType::UserMessage, "and then left").await;
    std::fs::write(harness.dir.path().join("go"), "").unwrap();
    let outcome = harness.outcome().await;
    assert!(!outcome.success(), "{outcome:?}");
    let ids: Vec<_> = outcome.undelivered.iter().map(|message| message.message_id.as_str()).collect();
    assert_eq!(ids, ["message_1"]);
}

#[tokio::test]
async fn a_turn_that_is_given_up_because_it_was_stopped_does_not_go_on() {
    let place = TempDir::new().unwrap();
    let rest = r#"
say half; touch ready; read -r cancel
refuse "$id" 'aborted'
read -r prompt; printf '%s\n' "$prompt" > second
say turned; answer "$(number "$prompt")" '{"stopReason":"end_turn"}'; cat >/dev/null
"#;
    let mut harness = start(stand_in(place.path(), rest)).await;
    until_file(&harness, "ready").await;
    harness.send("message_1", MessageType::Interrupt, "turn left").await;
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    let heard = std::fs::read_to_string(harness.dir.path().join("second")).unwrap();
    assert!(heard.contains("turn left") && !heard.contains("Go on from where you were"), "{heard}");
    assert_eq!(harness.told_of("agent.stream_error").len(), 0, "nothing failed");
    assert_eq!(harness.told_of("agent.interrupted").len(), 1);
}
