//! Helpers: what they are sent with, what they may do, what is told of them and what comes back.

use std::sync::Arc;

use serde_json::{Value, json};
use sunaba_agent::{PermissionMode, SubagentLimits};
use sunaba_types::MessageType;
use tokio::sync::Semaphore;

use crate::fake_model::{Act, asks, head, says, tail, text};
use crate::harness::{Harness, Setup, tool_result};

fn task(kind: &str) -> (&'static str, Value) {
    ("Task", json!({"description": "look around", "prompt": "find the cause", "subagent_type": kind}))
}

fn tool_names(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_helper_works_by_itself_and_its_last_words_come_back() {
    let acts = vec![
        asks(&[task("architect")]),
        asks(&[("Read", json!({"file_path": "a.txt"}))]),
        says("the cause is a.txt"),
        says("done"),
    ];
    let mut harness = Harness::start_in(acts, |dir| {
        std::fs::write(dir.join("a.txt"), "wrong\n").unwrap();
        std::fs::write(dir.join("AGENTS.md"), "always use tabs").unwrap();
    })
    .await;
    let outcome = harness.outcome().await;
    assert_eq!((outcome.final_output.as_str(), outcome.turns), ("done", 2));
    assert_eq!(outcome.usage.input_tokens, 40, "what the helper used counts");

    let requests = harness.model.requests();
    let helper = &requests[1];
    assert_eq!(tool_names(helper), ["Read", "Glob", "Grep"]);
    let system = helper["system"][0]["text"].as_str().unwrap();
    assert!(system.starts_with("You plan changes") && system.contains("always use tabs"), "{system}");
    assert_eq!(helper["messages"][0]["content"][0]["text"], "find the cause");
    assert!(!helper.to_string().contains("do the thing"), "it knows nothing of its sender's conversation");
    assert!(tool_result(&requests[2], "t0").0.contains("wrong"));
    assert_eq!(tool_result(&requests[3], "t0"), ("the cause is a.txt".to_owned(), false));
    let last = requests[3].to_string();
    assert!(!last.contains("wrong"), "its own steps stay with it");

    let invoked = &harness.told_of("agent.subagent_invoked")[0];
    assert_eq!((&invoked["tool"], &invoked["event_subtype"]), (&json!("Task"), &json!("subagent")));
    assert_eq!(
        [&invoked["subagent_type"], &invoked["subagent_description"], &invoked["subagent_prompt"]],
        ["architect", "look around", "find the cause"]
    );
    let completed = &harness.told_of("agent.subagent_completed")[0];
    assert_eq!((&completed["result"], &completed["is_error"]), (&json!("the cause is a.txt"), &json!(false)));
    assert_eq!(completed["usage"]["input_tokens"], 20);
    assert!(completed["duration_ms"].is_u64());
    let inner = &harness.told_of("agent.tool_use")[0];
    assert_eq!((&inner["tool"], &inner["parent_tool_use_id"]), (&json!("Read"), &json!("t0")));
    assert_eq!(harness.told_of("agent.user_message").len(), 1, "only the agent's own");
}

#[tokio::test]
async fn helpers_that_only_look_work_at_once() {
    let gate = Arc::new(Semaphore::new(0));
    let report = || Act::Gated(Arc::clone(&gate), head() + &text(0, "seen") + &tail("end_turn"));
    let acts = vec![asks(&[task("architect"), task("architect")]), report(), report(), says("done")];
    let mut harness = Harness::start(acts).await;
    // Neither has an answer yet, so the second did not wait for the first.
    harness.until_requests(3).await;
    gate.add_permits(2);
    assert!(harness.outcome().await.success());
    let last = &harness.model.requests()[3];
    assert_eq!([tool_result(last, "t0").0, tool_result(last, "t1").0], ["seen", "seen"]);
}

#[tokio::test]
async fn a_helper_has_a_budget_of_its_own() {
    let limits = [
        (SubagentLimits { max_turns: 2, max_tokens: 1_000_000 }, 2, "not done after 2 turns"),
        // One call uses 10 + 7, and puts 3 into the cache.
        (SubagentLimits { max_turns: 9, max_tokens: 20 }, 1, "its 20 tokens are used up"),
    ];
    for (limits, calls, reason) in limits {
        let mut setup = Setup::default();
        setup.config.subagents = limits;
        let mut acts = vec![asks(&[task("debugger")])];
        acts.extend((0..calls).map(|_| asks(&[("Bash", json!({"command": "true"}))])));
        acts.push(says("I do it myself"));
        let mut harness = Harness::start_with(acts, setup, |_| ()).await;
        let outcome = harness.outcome().await;
        assert_eq!((outcome.final_output.as_str(), outcome.turns), ("I do it myself", 2));
        let (content, is_error) = tool_result(harness.model.requests().last().unwrap(), "t0");
        assert!(is_error && content.contains(reason), "{content}");
    }
}

#[tokio::test]
async fn a_helper_that_fails_ends_nobody_else() {
    let refused = Act::Plain(400, "", json!({"error": {"type": "invalid_request_error", "message": "bad"}}));
    let mut harness =
        Harness::start(vec![asks(&[task("architect"), task("nobody")]), refused, says("well")]).await;
    assert!(harness.outcome().await.success());
    let last = &harness.model.requests()[2];
    let (content, is_error) = tool_result(last, "t0");
    assert!(is_error && content.contains("could not go on") && content.contains("bad"), "{content}");
    let (content, is_error) = tool_result(last, "t1");
    assert!(is_error && content.contains("no helper named nobody; there are code-reviewer"), "{content}");
    assert!(harness.told_of("agent.error").is_empty(), "an error of the agent would end the attempt");
}

#[tokio::test]
async fn an_interrupt_ends_a_helper_and_its_command() {
    let command = "echo begun; until [ -e never ]; do sleep 0.01; done";
    let acts =
        vec![asks(&[task("debugger")]), asks(&[("Bash", json!({"command": command}))]), says("as you say")];
    let mut harness = Harness::start(acts).await;
    let (_, output) = harness.until_type("agent.tool_output").await;
    assert_eq!(output["parent_tool_use_id"], "t0");
    harness.send("message_1", MessageType::Interrupt, "leave it").await;
    assert_eq!(harness.outcome().await.final_output, "as you say");
    let (content, is_error) = tool_result(&harness.model.requests()[2], "t0");
    assert!(is_error && content.contains("[interrupted] the helper was ended"), "{content}");
    assert_eq!(harness.told_of("agent.interrupted").len(), 1);
}

#[tokio::test]
async fn a_helper_of_the_repository_has_what_its_file_says_and_no_helpers() {
    let acts = vec![asks(&[task("poet")]), says("a verse"), says("done")];
    let mut harness = Harness::start_in(acts, |dir| {
        std::fs::create_dir_all(dir.join(".claude/agents")).unwrap();
        let file = "---\nname: poet\ndescription: Writes verse.\nmodel: glm-5\n---\nYou write verse.";
        std::fs::write(dir.join(".claude/agents/poet.md"), file).unwrap();
    })
    .await;
    assert!(harness.outcome().await.success());
    let requests = harness.model.requests();
    let offered = requests[0]["tools"].as_array().unwrap();
    let offered = offered.iter().find(|tool| tool["name"] == "Task").unwrap();
    assert!(offered["description"].as_str().unwrap().contains("- poet: Writes verse."), "{offered}");
    let names = offered["input_schema"]["properties"]["subagent_type"]["enum"].to_string();
    assert_eq!(names, r#"["code-reviewer","test-runner","architect","debugger","poet"]"#);
    assert_eq!((&requests[0]["model"], &requests[1]["model"]), (&json!("fake"), &json!("glm-5")));
    assert_eq!(tool_names(&requests[1]), ["Read", "Write", "Edit", "Bash", "Glob", "Grep", "TodoWrite"]);
    assert!(requests[1]["system"][0]["text"].as_str().unwrap().starts_with("You write verse."));
}

#[tokio::test]
async fn a_helper_asks_like_its_sender() {
    let acts = vec![
        asks(&[task("debugger")]),
        asks(&[("Bash", json!({"command": "touch x"}))]),
        says("not allowed"),
        says("done"),
    ];
    let setup = Setup { permission_mode: PermissionMode::Ask, ..Setup::default() };
    let mut harness = Harness::start_with(acts, setup, |_| ()).await;
    assert!(harness.outcome().await.success());
    let (content, is_error) = tool_result(&harness.model.requests()[2], "t0");
    assert!(is_error && content.contains("Bash is not allowed here"), "{content}");
    assert!(!harness.dir.path().join("x").exists());
}
