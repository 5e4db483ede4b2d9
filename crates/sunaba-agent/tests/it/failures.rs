//! Broken streams, refused calls and used-up turns end in the right way, or not at all.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sunaba_agent::{Ending, ErrorClass};

use crate::fake_model::{Act, asks, head, says, sse, tail, text, tool_with};
use crate::harness::{Harness, Setup, last_blocks, tool_result};

fn refused(kind: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": "no"}})
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let inside = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    // With what the broken call had already used, which still counts.
    let acts = [
        (Act::Plain(529, "", refused("overloaded_error")), 0),
        (Act::Plain(500, "", refused("api_error")), 0),
        (Act::Cut(head() + &text(0, "this is lost")), 10),
        (Act::Stream(head() + &text(0, "this too") + &sse(&inside)), 10),
        (Act::Stream(head() + &text(0, "ends early")), 10),
    ];
    for (act, already_used) in acts {
        let mut harness = Harness::start(vec![act, says("well")]).await;
        let outcome = harness.outcome().await;
        assert_eq!(outcome.final_output, "well");
        assert_eq!(outcome.turns, 1, "a call that is tried again counts once");
        assert_eq!(outcome.usage.input_tokens, already_used + 10);
        let requests = harness.model.requests();
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0], requests[1], "the same request again");
        let errors = harness.told_of("agent.stream_error");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0]["retrying"], true);
        assert_eq!(harness.told_of("agent.message").len(), 1, "nothing of the broken answer is told");
    }
}

#[tokio::test]
async fn the_asked_for_pause_is_kept() {
    let acts = vec![Act::Plain(429, "retry-after: 0.3\r\n", refused("rate_limit_error")), says("well")];
    let began = Instant::now();
    let mut harness = Harness::start(acts).await;
    assert!(harness.outcome().await.success());
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_pause_beyond_all_measure_is_an_error_at_once() {
    let acts = vec![Act::Plain(429, "retry-after: 86400\r\n", refused("rate_limit_error")), says("never")];
    let mut harness = Harness::start(acts).await;
    let error = harness.outcome().await.error().unwrap();
    assert_eq!(error.class, ErrorClass::RateLimited);
    assert_eq!(harness.model.requests().len(), 1);
}

#[tokio::test]
async fn tries_are_counted() {
    let acts = (0..5).map(|_| Act::Plain(503, "", refused("api_error"))).collect();
    let mut harness = Harness::start(acts).await;
    let outcome = harness.outcome().await;
    assert_eq!(outcome.error().unwrap().class, ErrorClass::Overloaded);
    assert_eq!(harness.model.requests().len(), 3);
    let errors = harness.told_of("agent.stream_error");
    assert_eq!(errors.len(), 3);
    assert_eq!(errors[2]["retrying"], false);
    assert_eq!(errors[2]["error_type"], "stream_init");
    let fatal = &harness.told_of("agent.error")[0];
    assert_eq!((&fatal["phase"], &fatal["error_class"]), (&json!("model_call"), &json!("overloaded")));
}

#[tokio::test]
async fn what_will_not_pass_is_not_tried_again() {
    for (status, headers, class) in [
        (400, "", ErrorClass::InvalidRequest),
        (401, "", ErrorClass::Auth),
        (429, "x-should-retry: false\r\n", ErrorClass::RateLimited),
    ] {
        let mut harness = Harness::start(vec![Act::Plain(status, headers, refused("x"))]).await;
        let outcome = harness.outcome().await;
        assert_eq!(outcome.error().unwrap().class, class, "{status}");
        assert_eq!(harness.model.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_malformed_stream_is_an_error_and_runs_nothing() {
    let write = tool_with(0, "t0", "Write", r#"{"file_path": "x", "content": "x"}"#);
    let wrong = [
        head() + &write + "data: {not json\n\n",
        head() + &write + &text(7, "out of turn") + &tail("tool_use"),
        write.clone() + &tail("tool_use"),
        head() + &write.replace("content_block_stop", "ping") + &tail("tool_use"),
    ];
    for body in wrong {
        let acts = (0..3).map(|_| Act::Stream(body.clone())).collect();
        let mut harness = Harness::start(acts).await;
        let outcome = harness.outcome().await;
        assert_eq!(outcome.error().unwrap().class, ErrorClass::Protocol, "{body}");
        assert!(!harness.dir.path().join("x").exists(), "nothing of it was run");
        assert!(harness.told_of("agent.tool_use").is_empty());
    }
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_an_error() {
    let acts = (0..3).map(|_| Act::Plain(200, "", json!({"hello": "there"}))).collect();
    let mut harness = Harness::start(acts).await;
    assert_eq!(harness.outcome().await.error().unwrap().class, ErrorClass::Protocol);
}

#[tokio::test]
async fn silence_is_noticed() {
    let mut setup = Setup::default();
    setup.config.idle_timeout = Duration::from_millis(80);
    let gone = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let mut harness = Harness::start_with(vec![Act::Stall(head(), gone), says("well")], setup, |_| ()).await;
    assert_eq!(harness.outcome().await.final_output, "well");
    assert_eq!(harness.told_of("agent.stream_error").len(), 1);
}

#[tokio::test]
async fn turns_are_counted() {
    let setup = Setup { max_turns: 3, ..Setup::default() };
    let acts = (0..9).map(|_| asks(&[("Bash", json!({"command": "true"}))])).collect();
    let mut harness = Harness::start_with(acts, setup, |_| ()).await;
    let outcome = harness.outcome().await;
    assert_eq!(outcome.ending, Ending::MaxTurns);
    assert_eq!((outcome.turns, harness.model.requests().len()), (3, 3));
    assert_eq!(outcome.error().unwrap().class, ErrorClass::MaxTurns);
    // Three calls of 10 + 7 tokens with 5 read from and 3 put into the cache.
    let usage = outcome.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (30, 21));
    assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (15, 9));
}

#[tokio::test]
async fn a_cut_off_answer_goes_on() {
    let cut_words = Act::Stream(head() + &text(0, "first half") + &tail("max_tokens"));
    let cut_tool = Act::Stream(
        head()
            + &tool_with(0, "t0", "Write", r#"{"file_path": "x", "content": "half of"#)
            + &tail("max_tokens"),
    );
    let mut harness = Harness::start(vec![cut_words, cut_tool, says("done")]).await;
    assert!(harness.outcome().await.success());
    let requests = harness.model.requests();
    let words = last_blocks(&requests[1]).last().unwrap()["text"].clone();
    assert!(words.as_str().unwrap().contains("cut off"), "{words}");
    let (reason, is_error) = tool_result(&requests[2], "t0");
    assert!(is_error && reason.contains("not a JSON object"), "{reason}");
    assert!(!harness.dir.path().join("x").exists());
}

#[tokio::test]
async fn a_wrong_base_url_is_a_reason() {
    let setup = Setup { base_url: Some("https://example.org".to_owned()), ..Setup::default() };
    let mut harness = Harness::start_with(vec![], setup, |_| ()).await;
    assert_eq!(harness.outcome().await.error().unwrap().class, ErrorClass::Configuration);
}
