//! The worker in continuous mode: what the agent says decides when to look, and what is there decides the rest.

use std::process::ExitStatus;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::server::Turn;
use crate::support::until;
use crate::work::{BRANCH, Bench, bash, ended, git, say, terminate};

const BLOCK: [&str; 16] = [
    "iteration_num",
    "successful_iterations",
    "error_count",
    "total_cost_usd",
    "completion_signal_count",
    "elapsed_seconds",
    "last_session_id",
    "validation_passed",
    "tests_passed",
    "code_committed",
    "code_pushed",
    "pr_created",
    "pr_url",
    "pr_number",
    "files_changed",
    "ci_status",
];

async fn run(bench: &Bench, settings: &[(&str, &str)]) -> ExitStatus {
    let mut worker = bench.command();
    worker.env("CONTINUOUS_MODE", "true").envs(settings.iter().copied());
    ended(&mut worker.spawn().unwrap()).await
}

fn last(bench: &Bench) -> Value {
    bench.server.only("continuous.completed")
}

/// What the model was told at the beginning of each iteration but the first.
fn told(bench: &Bench, words: &str) -> usize {
    let requests = bench.server.state().model_requests.clone();
    requests.iter().filter(|request| request["messages"].to_string().contains(words)).count()
}

#[tokio::test]
async fn its_word_is_taken_when_what_it_says_is_there() {
    let push = format!("git push -q origin HEAD:{BRANCH}");
    let bench = Bench::new(vec![
        bash("echo new > new.txt"),
        say("All done. TASK_COMPLETE"),
        bash("git add -A && git commit -qm work"),
        say("Committed. TASK_COMPLETE"),
        bash(&push),
        say("Pushed. TASK_COMPLETE"),
        bash(&format!("touch good && git add -A && git commit -qm good && {push}")),
        say("TASK_COMPLETE"),
    ])
    .await;
    let check =
        "echo looked >> ../checks; test -e good || { echo no good; exit 3; }; touch left-by-the-check";
    assert!(run(&bench, &[("CHECK_COMMAND", check)]).await.success());

    let seen = bench.server.all("iteration.validation");
    let found: Vec<_> = seen
        .iter()
        .map(|seen| (&seen["code_committed"], &seen["code_pushed"], &seen["tests_passed"]))
        .collect();
    let (yes, no) = (&json!(true), &json!(false));
    assert_eq!(found, [(no, no, no), (yes, no, no), (yes, yes, no), (yes, yes, yes)]);
    assert_eq!(std::fs::read_to_string(bench.dir.path().join("checks")).unwrap().lines().count(), 4);
    for words in ["changes that are not committed", "HEAD is not at the remote", "exit status: 3", "no good"]
    {
        assert!(told(&bench, words) > 0, "the agent is told: {words}");
    }
    let completed = last(&bench);
    for (field, expected) in [
        ("stop_reason", json!("completed")),
        ("validation_passed", json!(true)),
        ("tests_passed", json!(true)),
        ("code_pushed", json!(true)),
        ("iteration_num", json!(4)),
        ("successful_iterations", json!(4)),
        ("files_changed", json!(2)),
        ("pr_created", json!(false)),
    ] {
        assert_eq!(completed[field], expected, "{field}: {completed}");
    }
    let agent = bench.server.only("agent.completed");
    assert_eq!((&agent["continuous"], &agent["success"], &agent["turns"]), (yes, yes, &json!(8)));
    assert_eq!(bench.server.only("agent.started")["continuous"], true);
    let head = git(&bench.workspace(), &["rev-parse", "HEAD"]);
    assert_eq!(bench.pushed().as_deref(), Some(head.as_str()));
    assert_eq!(
        git(&bench.workspace(), &["status", "--porcelain"]),
        "?? left-by-the-check",
        "is nobody's work"
    );
}

#[tokio::test]
async fn the_iterations_are_one_conversation_and_the_story_is_the_contract_s() {
    let bench = Bench::new(vec![say("not yet"), say("TASK_COMPLETE"), say("TASK_COMPLETE")]).await;
    let settings = [("REQUIRE_CODE_PUSHED", "false"), ("COMPLETION_THRESHOLD", "2")];
    assert!(run(&bench, &settings).await.success());
    let types = bench.server.types();
    let story: Vec<_> = types
        .iter()
        .filter(|name| name.starts_with("continuous.") || name.starts_with("iteration."))
        .collect();
    assert_eq!(
        story,
        [
            "continuous.started",
            "iteration.started",
            "iteration.completed",
            "iteration.started",
            "iteration.completion_signal",
            "iteration.completed",
            "iteration.started",
            "iteration.completion_signal",
            "iteration.validation",
            "iteration.completed",
            "continuous.completed",
        ]
    );
    let events: Vec<_> = story.iter().flat_map(|name| bench.server.all(name)).collect();
    for event in &events {
        for field in BLOCK {
            assert!(event.get(field).is_some(), "{field} is not in {event}");
        }
    }
    let sessions: std::collections::HashSet<_> = bench
        .server
        .all("iteration.completed")
        .iter()
        .map(|event| event["last_session_id"].to_string())
        .collect();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let request = bench.server.state().model_requests[2]["messages"].to_string();
    assert!(request.contains("Do the thing") && request.contains("not yet"), "{request}");
    let completed = last(&bench);
    assert_eq!((&completed["tests_passed"], &completed["code_committed"]), (&json!(null), &json!(false)));
}

#[tokio::test]
async fn a_push_to_somewhere_else_is_none() {
    let elsewhere = "git init -q --bare ../elsewhere.git && git remote set-url origin ../elsewhere.git && \
git config url.../elsewhere.git.insteadOf origin.git && echo new > new.txt && git add -A && git commit -qm work && \
git push -q origin HEAD:feature/x";
    let bench = Bench::new(vec![bash(elsewhere), say("TASK_COMPLETE")]).await;
    assert_eq!(run(&bench, &[("MAX_ITERATIONS", "1")]).await.code(), Some(1));
    let seen = bench.server.only("iteration.validation");
    assert_eq!((&seen["code_committed"], &seen["code_pushed"]), (&json!(true), &json!(false)), "{seen}");
    assert_eq!(last(&bench)["validation_passed"], false);
}

#[tokio::test]
async fn iterations_are_counted_and_the_work_so_far_is_kept() {
    let bench = Bench::new(vec![bash("echo half > half.txt"), say("TASK_COMPLETE")]).await;
    assert_eq!(run(&bench, &[("MAX_ITERATIONS", "2")]).await.code(), Some(1));
    let completed = last(&bench);
    assert_eq!(
        (&completed["stop_reason"], &completed["iteration_num"]),
        (&json!("max_iterations"), &json!(2))
    );
    assert_eq!(completed["validation_passed"], false);
    assert_eq!(bench.server.only("agent.completed")["success"], false);
    let failed = bench.server.only("agent.failed");
    assert!(failed["error"].as_str().unwrap().contains("not done after 2 iterations"), "{failed}");
    let pushed = bench.pushed().expect("what was done so far is at the origin");
    assert!(git(&bench.workspace(), &["show", "--stat", &pushed]).contains("half.txt"));
}

#[tokio::test]
async fn errors_in_a_row_end_it_and_the_attempt_only_then() {
    let bench = Bench::new(vec![Turn::Refuse]).await;
    assert_eq!(run(&bench, &[("MAX_CONSECUTIVE_ERRORS", "2")]).await.code(), Some(1));
    let failed = bench.server.all("iteration.failed");
    assert_eq!(
        failed.iter().map(|event| event["error_count"].clone()).collect::<Vec<_>>(),
        [json!(1), json!(2)]
    );
    assert_eq!(last(&bench)["stop_reason"], "max_consecutive_errors");
    assert!(!bench.server.has("agent.error"), "the server would take it for the end");
    assert!(bench.server.only("agent.failed")["error"].as_str().unwrap().contains("not this one"));
}

#[tokio::test]
async fn time_is_bounded_also_within_an_iteration() {
    let bench = Bench::new(vec![bash("sleep 600"), say("TASK_COMPLETE")]).await;
    let began = Instant::now();
    assert_eq!(run(&bench, &[("MAX_DURATION_SECONDS", "1")]).await.code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(last(&bench)["stop_reason"], "max_duration");
}

#[tokio::test]
async fn money_is_what_the_gateway_counted() {
    let bench = Bench::new(vec![say("not yet")]).await;
    bench.server.state().call_cost_usd = 0.3;
    assert_eq!(run(&bench, &[("MAX_TOTAL_COST_USD", "0.5")]).await.code(), Some(1));
    let completed = last(&bench);
    assert_eq!((&completed["stop_reason"], &completed["iteration_num"]), (&json!("max_cost"), &json!(2)));
    assert_eq!(completed["total_cost_usd"], 0.6);
}

#[tokio::test]
async fn told_to_end_it_keeps_the_work_and_says_so() {
    let bench = Bench::new(vec![bash("echo half > half.txt; touch ready; sleep 600")]).await;
    let mut worker = bench.command().env("CONTINUOUS_MODE", "1").spawn().unwrap();
    let ready = bench.workspace().join("ready");
    until("the command runs", || ready.exists()).await;
    terminate(&worker);
    assert_eq!(ended(&mut worker).await.code(), Some(1));
    assert_eq!(last(&bench)["stop_reason"], "cancelled");
    assert_eq!(bench.server.only("agent.failed")["error_class"], "cancelled");
    assert!(bench.pushed().is_some());
}

#[tokio::test]
async fn what_is_said_during_an_iteration_is_heard() {
    let bench = Bench::new(vec![bash("sleep 0.7"), say("TASK_COMPLETE")]).await;
    let settings = [("CONTINUOUS_MODE", "1"), ("REQUIRE_CODE_PUSHED", "0")];
    let mut worker = bench.command().envs(settings).spawn().unwrap();
    until("the command runs", || bench.server.has("agent.tool_use")).await;
    let message =
        json!({"id": "msg_1", "content": "use the blue one", "message_type": "user_message", "sender": "me"});
    bench.server.state().messages.push_back(message);
    assert!(ended(&mut worker).await.success());
    assert_eq!(bench.server.only("agent.message_injected")["message_id"], "msg_1");
    assert!(told(&bench, "use the blue one") > 0);
}

#[tokio::test]
async fn what_cannot_be_observed_cannot_be_required() {
    let bench = Bench::new(vec![say("TASK_COMPLETE")]).await;
    assert_eq!(run(&bench, &[("REQUIRE_TESTS", "true")]).await.code(), Some(1));
    let failed = bench.server.only("agent.failed");
    assert_eq!(failed["phase"], "configuration");
    assert!(failed["error"].as_str().unwrap().contains("REQUIRE_TESTS"), "{failed}");
}
