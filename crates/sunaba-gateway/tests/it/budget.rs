//! Budgets: what is reserved, lowered, refused and settled.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::{Value, json};
use sunaba_store::{ProjectPatch, Spender};
use sunaba_types::ProjectSettings;

use crate::support::{Setup, World};
use crate::upstream::{START, in_mid_answer};
use crate::vendor::Vendor;

fn messages(max_tokens: u64, stream: bool) -> Value {
    let words = "a few words that the model is to read. ".repeat(100);
    json!({"model": "claude-x", "max_tokens": max_tokens, "stream": stream, "messages": [{"role": "user", "content": words}]})
}

#[tokio::test]
async fn parallel_calls_of_several_sandboxes_never_spend_more_than_the_projects_cap() {
    let vendor = Vendor::new().await;
    let world = World::with_upstream(&vendor.address).await;
    let cap_usd = 0.05;
    let settings = ProjectSettings { total_budget_usd: Some(cap_usd), ..ProjectSettings::default() };
    let patch = ProjectPatch { settings: Some(settings), ..ProjectPatch::default() };
    world.store.update_project(&world.project, patch).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (_, base) = world.another_sandbox().await;
        for number in 0..8 {
            let url = format!("{base}/gateway/anthropic/v1/messages");
            calls.spawn(async move {
                let request = messages(1000, number % 2 == 0);
                let answer = reqwest::Client::new().post(url).json(&request).send().await.unwrap();
                let status = answer.status().as_u16();
                (status, answer.text().await.unwrap())
            });
        }
    }
    let (mut served, mut refused) = (0, 0);
    while let Some(done) = calls.join_next().await {
        match done.unwrap() {
            (200, _) => served += 1,
            (400, body) => {
                assert!(body.contains("the project's budget of $0.05 "), "{body}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(served + refused, 32);
    assert!(served > 0 && refused > 0, "{served} {refused}");
    assert!(vendor.charged() <= 50_000, "the vendor charged {}", vendor.charged());
    let spending = world.store.spending(&Spender::Project(world.project.clone())).await.unwrap();
    assert_eq!((spending.cost_micros, spending.reserved_micros), (vendor.charged(), 0));
    assert_eq!(spending.calls, served);
}

#[tokio::test]
async fn an_answer_is_bounded_by_what_is_left_and_that_is_said() {
    let vendor = Vendor::new().await;
    let world = World::with_budget(&vendor.address, 0.02).await;
    let (status, body) = world.ask(&messages(9000, false)).await;
    assert_eq!(status, 200, "{body}");
    let sent = vendor.heard("/v1/messages").pop().unwrap().body;
    let lowered = sent["max_tokens"].as_u64().unwrap();
    assert!((256..9000).contains(&lowered), "{lowered}");
    // The vendor was asked how long the input really is, so that the bound by bytes does not eat the answer.
    let counted = vendor.heard("/v1/messages/count_tokens").pop().unwrap().body;
    assert_eq!(counted["messages"], sent["messages"]);
    assert!(counted.get("max_tokens").is_none());
    assert!(lowered > 1700, "only {lowered} tokens of about 1,800 that $0.02 pays for");
    let said = world.events("gateway.budget", 1).await;
    assert_eq!((&said[0]["lowered_from"], &said[0]["lowered_to"]), (&json!(9000), &json!(lowered)));
    let calls = world.events("gateway.model_call", 1).await;
    assert_eq!(said[0]["call_id"], calls[0]["call_id"]);
    let (spent, reserved) = world.spent().await;
    assert_eq!((spent, reserved), (vendor.charged(), 0));
    assert!(spent <= 20_000);
}

#[tokio::test]
async fn a_budget_that_is_too_small_is_a_refusal_that_clients_do_not_repeat() {
    let vendor = Vendor::new().await;
    let world = World::with_budget(&vendor.address, 0.001).await;
    let chat = json!({"model": "gpt-x", "messages": [{"role": "user", "content": "x".repeat(4000)}]});
    let responses = json!({"model": "gpt-x", "input": "x".repeat(8000)});
    for (path, request) in [
        ("anthropic/v1/messages", messages(1000, true)),
        ("openai/v1/chat/completions", chat),
        ("openai/v1/responses", responses),
    ] {
        let (status, body) = world.ask_at(path, &request).await;
        assert_eq!(status, 400, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["error"]["type"], "invalid_request_error");
        let words = body["error"]["message"].as_str().unwrap();
        // Nothing of it is spent: it is too small for this call, and the call's price is said.
        assert!(words.starts_with("the task's budget of $0.001 is too small; this call needs at least $0."));
        assert!(words.contains(" and may cost up to $0.") && words.contains("raise the budget"), "{words}");
        assert!(words.contains("Trying again changes nothing") && !words.contains("used up"), "{words}");
        if path.starts_with("openai") {
            assert_eq!(body["error"]["code"], "billing_hard_limit_reached");
        }
    }
    assert_eq!((vendor.charged(), world.spent().await), (0, (0, 0)));
    let calls = world.events("gateway.model_call", 3).await;
    assert!(
        calls
            .iter()
            .all(|call| call["status"] == 400 && call["cost_usd"] == 0.0 && call["call_id"].is_null())
    );
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_unless_there_is_a_default() {
    let vendor = Vendor::new().await;
    let world = World::with_upstream(&vendor.address).await;
    let mut request = messages(10, false);
    request["model"] = json!("unheard-of");
    let (status, body) = world.ask(&request).await;
    assert!(status == 400 && body.contains("unheard-of") && body.contains("gateway.prices"), "{body}");
    let (upstream, prices) = (Some(vendor.address.clone()), Some("default: {input: 1, output: 10}"));
    let world = World::new(Setup { upstream, prices, ..Setup::default() }).await;
    assert_eq!(world.ask(&request).await.0, 200);
    assert_eq!(world.spent().await, (vendor.charged(), 0));
}

#[tokio::test]
async fn scripts_cost_what_the_table_says() {
    let script = Some("- text: hi\n  usage: {input_tokens: 1000, output_tokens: 100}\n".to_owned());
    let prices = Some("models: {script: {input: 1, output: 10}}");
    let world = World::new(Setup { script, prices, budget_usd: Some(0.005), ..Setup::default() }).await;
    let statuses = [world.ask(&messages(10, true)).await.0, world.ask(&messages(10, false)).await.0];
    assert_eq!(statuses, [200, 200]);
    let (status, body) = world.ask(&messages(10, false)).await;
    let words = "the task's budget of $0.005 has only $0.001 left ($0.004 is spent or reserved); this call needs $0.002";
    assert!(status == 400 && body.contains(words), "{body}");
    assert_eq!(world.spent().await, (4000, 0));
    let calls = world.events("gateway.model_call", 3).await;
    assert_eq!((&calls[0]["cost_usd"], &calls[0]["reserved_usd"]), (&json!(0.002), &json!(0.002)));
}

#[tokio::test]
async fn an_answer_that_breaks_off_costs_what_can_have_been_written() {
    let (world, feed, mut stream) = in_mid_answer().await;
    feed.send(Err(std::io::Error::other("cut"))).await.unwrap();
    assert!(stream.next().await.unwrap().is_err());
    let call = world.events("gateway.model_call", 1).await.remove(0);
    // A model writes more than was heard before it notices the end, but no more than the answer's bound.
    assert_eq!((&call["known_by"], &call["input_tokens"]), (&json!("time"), &json!(11)));
    assert_eq!(call["output_tokens"], 100, "{call}");
    assert!(START.len().div_ceil(3) < 100);
    assert_eq!(world.spent().await, (11 + 100 * 10, 0));
}

#[tokio::test]
async fn a_client_that_leaves_pays_for_what_was_sent() {
    let (world, _feed, stream) = in_mid_answer().await;
    drop(stream);
    let call = world.events("gateway.model_call", 1).await.remove(0);
    assert!(call["error"].as_str().unwrap().contains("went away"), "{call}");
    assert!(world.spent().await.0 > 11);

    // Of an answer in one piece nothing is known before all of it is written: it counts in full.
    let vendor = Vendor::held().await;
    let world = World::with_upstream(&vendor.address).await;
    let request = messages(100, false);
    let impatient = tokio::time::timeout(Duration::from_secs(20), world.ask(&request));
    tokio::select! {
        _ = impatient => panic!("the vendor answered"),
        () = vendor.until_heard("/v1/messages") => {}
    }
    let call = world.events("gateway.model_call", 1).await.remove(0);
    assert_eq!((&call["known_by"], &call["cost_usd"]), (&json!("reservation"), &call["reserved_usd"]));
    let (spent, reserved) = world.spent().await;
    assert!(spent >= 5000 && reserved == 0, "{spent} {reserved}");
    vendor.let_go();
}

#[tokio::test]
async fn a_vendor_that_was_not_reached_or_refused_costs_nothing() {
    let world = World::with_upstream("http://127.0.0.1:9").await;
    assert_eq!(world.ask(&messages(100, false)).await.0, 502);
    let call = world.events("gateway.model_call", 1).await.remove(0);
    assert_eq!((&call["known_by"], &call["cost_usd"]), (&json!("not_sent"), &json!(0.0)));
    assert!(call["reserved_usd"].as_f64().unwrap() > 0.0);
    assert_eq!(world.spent().await, (0, 0));
}
