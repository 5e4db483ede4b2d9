//! The cases, most of them about what is told.

use std::future::Future;
use std::pin::Pin;

use serde_json::{Value, json};
use sunaba_agent::{Answer, Ending, ErrorClass, SessionStart};

use super::stage::{Kind, Scripted, go, sent, until_file, until_go};
use super::{cuts, steering};
use crate::fake_model::{Act, asks, says};
use crate::harness::{Harness, SESSION, Setup};

pub(super) type Case = fn(Kind) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! cases {
    ($($place:ident::$name:ident),* $(,)?) => {
        vec![$((stringify!($name), (|kind| Box::pin($place::$name(kind))) as Case)),*]
    };
}

pub(super) fn all() -> Vec<(&'static str, Case)> {
    use self as cases;
    cases![
        cases::tool_use,
        cases::streamed_output,
        cases::file_edits,
        steering::message_in_a_tool,
        steering::messages_keep_order,
        steering::message_at_the_end,
        steering::interrupt_in_a_tool,
        steering::interrupt_in_a_stream,
        steering::told_to_end,
        cases::permission_allowed,
        cases::permission_denied,
        cases::permission_rewritten,
        cases::resume_after_kill,
        cases::fork,
        cases::usage,
        cases::call_tried_again,
        cuts::call_cut_in_the_middle,
        cuts::call_cut_at_its_end,
        cases::call_refused,
        cases::used_up_turns,
        cases::helper,
    ]
}

async fn tool_use(kind: Kind) {
    let bash = asks(&[("Bash", json!({"command": "echo hello; echo oops >&2; exit 3"}))]);
    let mut harness = kind.start(vec![bash, says("all done")]).await;
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!((outcome.turns, outcome.final_output.as_str()), (2, "all done"));
    let used = &harness.told_of("agent.tool_use")[0];
    assert_eq!((&used["tool"], &used["tool_use_id"]), (&json!("Bash"), &json!("t0")));
    let completed = &harness.told_of("agent.tool_completed")[0];
    let response = completed["tool_response"].as_str().unwrap();
    assert!(response.contains("hello") && response.contains("oops"), "{completed:?}");
    let result = &harness.told_of("agent.tool_result")[0];
    assert_eq!((&result["tool_use_id"], &result["turn"]), (&json!("t0"), &json!(1)));
    assert!(sent(&harness.model.requests()[1]).contains("hello"));
    let types = harness.types();
    let at = |wanted: &str| types.iter().position(|name| *name == wanted).unwrap();
    assert!(at("agent.user_message") < at("agent.tool_use"));
    assert!(at("agent.tool_use") < at("agent.tool_completed"));
    assert!(at("agent.tool_completed") < at("agent.message"));
    assert_eq!(harness.told_of("agent.assistant_message").len(), 2);
}

async fn streamed_output(kind: Kind) {
    let harness = kind.start(vec![asks(&[until_go("echo first")]), says("done")]).await;
    until_file(&harness, "ready").await;
    // Half a second is long for what is streamed and short for what is not.
    let soon = tokio::time::timeout(
        std::time::Duration::from_millis(500),
        harness.until("output", |told| told.0 == "agent.tool_output" && told.1["chunk"] == "first\n"),
    );
    let streamed = soon.await.is_ok();
    go(&harness);
    assert!(streamed, "the output was not told while the command ran");
}

async fn file_edits(kind: Kind) {
    let make = |harness: &std::path::Path| {
        let path = harness.join("new.txt").display().to_string();
        (
            asks(&[("Write", json!({"file_path": path, "content": "one\ntwo\n"}))]),
            asks(&[("Edit", json!({"file_path": path, "old_string": "two", "new_string": "2"}))]),
        )
    };
    // The path has to be whole for some runtimes, so the place is made before the script.
    let place = tempfile::TempDir::new().unwrap();
    let (write, edit) = make(place.path());
    let setup = kind.setup();
    let mut harness = Harness::start_at(place, vec![write, edit, says("done")], setup).await;
    assert!(harness.outcome().await.success());
    let edits = harness.told_of("agent.file_edited");
    assert_eq!(edits.len(), 2, "{edits:#?}");
    assert_eq!((&edits[0]["change_type"], &edits[0]["file_path"]), (&json!("created"), &json!("new.txt")));
    assert_eq!((&edits[0]["lines_added"], &edits[0]["lines_removed"]), (&json!(2), &json!(0)));
    assert_eq!(edits[1]["change_type"], "modified");
    let diff = edits[1]["full_diff"].as_str().unwrap();
    assert!(diff.contains("\n-two\n+2\n"), "{diff}");
}

async fn permission_allowed(kind: Kind) {
    let asking = Scripted::new(vec![Answer::Allow { instead: None }]);
    let acts = vec![asks(&[("Bash", json!({"command": "touch made && rm -f none"}))]), says("done")];
    let mut harness = kind.start_asking(acts, &asking).await;
    assert!(harness.outcome().await.success());
    let questions = asking.questions.lock().unwrap().clone();
    assert_eq!(questions.len(), 1);
    assert_eq!((questions[0].tool.as_str(), questions[0].tool_use_id.as_str()), ("Bash", "t0"));
    assert_eq!(questions[0].input["command"], "touch made && rm -f none");
    assert!(harness.dir.path().join("made").exists());
}

async fn permission_denied(kind: Kind) {
    let asking = Scripted::new(vec![Answer::Deny { message: "not on a Monday".to_owned() }]);
    // Twice: the words may come after the answer, and then they have one of their own.
    let asked = asks(&[("Bash", json!({"command": "touch made"}))]);
    let acts = vec![asked, says("as you wish"), says("as you wish")];
    let mut harness = kind.start_asking(acts, &asking).await;
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "the run failed: {outcome:?}");
    assert!(!harness.dir.path().join("made").exists());
    assert!(harness.model.requests()[1..].iter().any(|request| sent(request).contains("not on a Monday")));
    assert_eq!(harness.told_of("agent.tool_completed")[0]["is_error"], true);
}

async fn permission_rewritten(kind: Kind) {
    let instead = Some(json!({"command": "touch other"}));
    let asking = Scripted::new(vec![Answer::Allow { instead }]);
    let acts = vec![asks(&[("Bash", json!({"command": "touch made"}))]), says("done"), says("done")];
    let mut harness = kind.start_asking(acts, &asking).await;
    assert!(harness.outcome().await.success());
    let made = |name: &str| harness.dir.path().join(name).exists();
    assert_eq!((made("made"), made("other")), (false, true), "something else was done than what was allowed");
    assert_eq!(harness.told_of("agent.tool_completed")[0]["tool_input"]["command"], "touch other");
}

async fn resume_after_kill(kind: Kind) {
    let begun = [asks(&[("Bash", json!({"command": "echo remember me"}))]), asks(&[until_go("true")])];
    let harness = kind.start(begun.into()).await;
    until_file(&harness, "ready").await;
    harness.kill();
    let (cwd, home) = (harness.dir.path(), &harness.home_path);
    let transcript = kind.runtime().find_transcript(home, cwd, SESSION).unwrap().unwrap();
    // A new sandbox: the same place with the same files, and nothing of the runtime's own.
    let setup = Setup {
        session: SessionStart::Resume { transcript },
        home: Some(cwd.join("another-home")),
        ..kind.setup()
    };
    let mut again = Harness::start_at(harness.dir, vec![says("went on")], setup).await;
    let outcome = again.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!((outcome.session_id.as_str(), outcome.final_output.as_str()), (SESSION, "went on"));
    let request = &again.model.requests()[0];
    assert!(sent(request).contains("remember me"), "{request:#}");
    assert!(every_call_has_a_result(request), "{request:#}");
}

async fn fork(kind: Kind) {
    let mut first = kind.start(vec![says("the first answer")]).await;
    let outcome = first.outcome().await;
    let transcript = outcome.transcript.unwrap();
    let setup = Setup {
        session_id: "7f9c2ba4-e88f-4d27-a8b6-5e3f6a0f1c99".to_owned(),
        session: SessionStart::Fork { from: SESSION.to_owned(), transcript: transcript.clone() },
        home: Some(first.dir.path().join("another-home")),
        ..kind.setup()
    };
    let mut second = Harness::start_at(first.dir, vec![says("the second answer")], setup).await;
    let forked = second.outcome().await;
    assert!(forked.success(), "{forked:?}");
    assert_eq!(forked.session_id, "7f9c2ba4-e88f-4d27-a8b6-5e3f6a0f1c99");
    assert!(sent(&second.model.requests()[0]).contains("the first answer"));
    assert!(forked.transcript.unwrap() != transcript);
    let (home, cwd) = (&second.home_path, second.dir.path());
    let kept = kind.runtime().find_transcript(home, cwd, SESSION).unwrap();
    assert!(kept.is_none_or(|kept| kept == transcript), "the first one is as it was");
}

async fn usage(kind: Kind) {
    let acts = vec![asks(&[("Bash", json!({"command": "true"}))]), says("done")];
    let mut harness = kind.start(acts).await;
    let usage = harness.outcome().await.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (20, 14), "something was not counted");
    let written = if kind.hears_of_cache_writes() { 6 } else { 0 };
    assert_eq!((usage.cache_read_tokens, usage.cache_write_tokens), (10, written));
}

async fn call_tried_again(kind: Kind) {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    let mut harness = kind.start(vec![Act::Plain(529, "", overloaded), says("done")]).await;
    assert!(harness.outcome().await.success());
    let errors = harness.told_of("agent.stream_error");
    assert_eq!(errors.len(), 1, "the failed call was not told once: {errors:#?}");
    assert_eq!((&errors[0]["retrying"], &errors[0]["error_type"]), (&json!(true), &json!("stream_init")));
}

async fn call_refused(kind: Kind) {
    let refused =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no such thing"}});
    let mut harness = kind.start(vec![Act::Plain(400, "", refused)]).await;
    let error = harness.outcome().await.error().unwrap();
    assert_eq!(error.class, ErrorClass::InvalidRequest, "{error}");
    assert!(error.message.contains("no such thing"), "{error}");
    assert_eq!(harness.told_of("agent.error")[0]["error_class"], "invalid_request");
}

async fn used_up_turns(kind: Kind) {
    let bash = || asks(&[("Bash", json!({"command": "true"}))]);
    let setup = Setup { max_turns: 2, ..kind.setup() };
    let mut harness = Harness::start_with(vec![bash(), bash(), bash(), bash()], setup, |_| ()).await;
    let outcome = harness.outcome().await;
    assert_eq!((outcome.ending.clone(), outcome.turns), (Ending::MaxTurns, 2), "{outcome:?}");
    assert!(harness.model.requests().len() <= 2 + kind.calls_beyond());
}

async fn helper(kind: Kind) {
    let task = json!({"description": "look", "prompt": "find the word", "subagent_type": kind.helper()});
    let acts = vec![asks(&[("Task", task)]), says("the word is sand"), says("done")];
    let mut harness = kind.start(acts).await;
    assert!(harness.outcome().await.success());
    let invoked = harness.told_of("agent.subagent_invoked");
    let invoked = invoked.first().expect("the helper was not told of");
    assert_eq!(
        (&invoked["subagent_type"], &invoked["subagent_prompt"]),
        (&json!(kind.helper()), &json!("find the word"))
    );
    let completed = &harness.told_of("agent.subagent_completed")[0];
    assert!(completed["result"].as_str().unwrap().contains("the word is sand"), "{completed:?}");
    assert_eq!(harness.told_of("agent.tool_completed").len(), 0);
}

/// Whether the API would accept the request: no tool call of the model is left open.
fn every_call_has_a_result(request: &Value) -> bool {
    if let Some(contents) = request["contents"].as_array() {
        return every_function_has_one_response(contents);
    }
    let mut parts = Vec::new();
    for message in request["messages"].as_array().or(request["input"].as_array()).unwrap() {
        parts.push(message.clone());
        for inside in ["content", "tool_calls"] {
            parts.extend(message[inside].as_array().cloned().unwrap_or_default());
        }
    }
    // Each protocol has its own names for the same two things.
    let named = |part: &Value, names: [&str; 4]| {
        names.iter().find_map(|name| part[*name].as_str().map(str::to_owned))
    };
    let is = |part: &Value, kinds: &[&str]| {
        kinds.iter().any(|kind| part["type"] == *kind || part["role"] == *kind)
    };
    let results = ["tool_result", "function_call_output", "custom_tool_call_output", "tool"];
    let calls = ["tool_use", "function_call", "custom_tool_call", "function"];
    let answered: Vec<_> = parts
        .iter()
        .filter(|part| is(part, &results))
        .map(|part| named(part, ["tool_use_id", "call_id", "tool_call_id", "id"]))
        .collect();
    let mut asked = parts.iter().filter(|part| is(part, &calls));
    asked.all(|part| answered.contains(&named(part, ["call_id", "id", "id", "id"])))
}

/// Google wants as many results as calls, right after them.
fn every_function_has_one_response(contents: &[Value]) -> bool {
    let ids = |content: Option<&Value>, kind: &str| -> Vec<Value> {
        let parts = content.and_then(|content| content["parts"].as_array().cloned()).unwrap_or_default();
        parts.iter().filter(|part| part[kind].is_object()).map(|part| part[kind]["id"].clone()).collect()
    };
    let mut at = 0..contents.len();
    at.all(|at| {
        let calls = ids(contents.get(at), "functionCall");
        calls.is_empty() || calls == ids(contents.get(at + 1), "functionResponse")
    })
}
