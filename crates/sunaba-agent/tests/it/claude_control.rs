//! The `claude` runtime's side of the control protocol where it is easily got wrong: a program that is replaced, an
//! interrupt that crosses something else, lines that cannot be read, questions that are taken back.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};
use sunaba_agent::{
    Answer, Asks, ClaudeConfig, ClaudeRuntime, Ending, ErrorClass, PermissionMode, Question, SessionStart,
    ToolPolicy,
};
use sunaba_types::MessageType;
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::claude::{HELLO, script, stand_in, start};
use crate::conformance::stage::{Kind, claude_config, sent, until_file};
use crate::fake_model::says;
use crate::harness::{Harness, SESSION, Setup};

/// The real CLI, but the first time something that takes the prompt, keeps nothing and never stops.
fn stuck_at_first(place: &TempDir) -> ClaudeConfig {
    let real = claude_config();
    let lines = format!(
        "if [ -e started ]; then exec '{}' \"$@\"; fi\ntouch started\n{HELLO}taken\n\
trap '' INT TERM\ntouch stuck\nsleep 301\n",
        real.program.display()
    );
    let patience = Duration::from_millis(200);
    let program = script(place, &lines);
    ClaudeConfig { program, interrupt_patience: patience, end_grace: patience, ..real }
}

async fn started_stuck(setup: Setup, acts: Vec<crate::fake_model::Act>) -> (TempDir, Harness) {
    let place = TempDir::new().unwrap();
    let runtime = Box::new(ClaudeRuntime::new(stuck_at_first(&place)));
    let harness = Harness::start_with(acts, Setup { runtime: Some(runtime), ..setup }, |_| ()).await;
    until_file(&harness, "stuck").await;
    harness.until("the first turn", |told| told.0 == "agent.system_message").await;
    (place, harness)
}

#[tokio::test]
async fn a_program_that_kept_nothing_is_replaced_by_one_that_is_told_everything() {
    let (_place, mut harness) = started_stuck(Setup::default(), vec![says("as you say")]).await;
    harness.send("message_1", MessageType::Interrupt, "with the left hand").await;
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    let asked = sent(&harness.model.requests()[0]);
    let at = |words: &str| asked.find(words).unwrap_or_else(|| panic!("{words} is not in {asked}"));
    assert!(at("do the thing") < at("with the left hand"));
    assert_eq!(harness.told_of("agent.message_injected").len(), 1);
}

#[tokio::test]
async fn replaced_without_a_word_it_waits_for_one() {
    let (_place, mut harness) = started_stuck(Setup::default(), vec![says("as you say")]).await;
    harness.send("message_1", MessageType::Interrupt, " ").await;
    harness.until_type("agent.waiting").await;
    assert_eq!(harness.model.requests().len(), 0, "it was told to stop");
    harness.send("message_2", MessageType::UserMessage, "go on").await;
    assert!(harness.outcome().await.success());
    let asked = sent(&harness.model.requests()[0]);
    assert!(asked.contains("do the thing") && asked.contains("go on"), "{asked}");
}

#[tokio::test]
async fn a_fork_that_is_replaced_still_knows_where_it_came_from() {
    let mut first = Kind::Claude.start(vec![says("the word is sand")]).await;
    let transcript = first.outcome().await.transcript.unwrap();
    let session = SessionStart::Fork { from: SESSION.to_owned(), transcript };
    let session_id = "0b7b0a4c-1d1e-4c59-9d0c-3c1f6f2f7a55".to_owned();
    let dir = std::mem::replace(&mut first.dir, TempDir::new().unwrap());
    let place = TempDir::new().unwrap();
    let runtime = Some(Box::new(ClaudeRuntime::new(stuck_at_first(&place))) as _);
    let setup = Setup { runtime, session, session_id, prompt: "and now", ..Setup::default() };
    let mut harness = Harness::start_at(dir, vec![says("on")], setup).await;
    until_file(&harness, "stuck").await;
    harness.until("the first turn", |told| told.0 == "agent.system_message").await;
    harness.send("message_1", MessageType::Interrupt, "faster").await;
    assert!(harness.outcome().await.success());
    let asked = sent(&harness.model.requests()[0]);
    for words in ["the word is sand", "and now", "faster"] {
        assert!(asked.contains(words), "{words} is not in {asked}");
    }
}

#[tokio::test]
async fn told_to_end_while_it_is_being_interrupted_it_ends() {
    let place = TempDir::new().unwrap();
    let program =
        stand_in(&place, "taken; trap '' INT\nread -r interrupt; touch interrupted; exec sleep 300\n");
    let config =
        ClaudeConfig { program, interrupt_patience: Duration::from_secs(30), ..ClaudeConfig::default() };
    let mut harness = start(config).await;
    harness.until("the first turn", |told| told.0 == "agent.system_message").await;
    harness.send("message_1", MessageType::Interrupt, "enough").await;
    until_file(&harness, "interrupted").await;
    let began = Instant::now();
    harness.shutdown.cancel();
    let outcome = harness.outcome().await;
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(outcome.ending, Ending::Cancelled);
    assert_eq!(outcome.undelivered.len(), 1, "nobody heard it");
}

/// Interrupts a program that ends its turn by itself at that moment.
async fn crossed(result: &str) -> Harness {
    let place = TempDir::new().unwrap();
    let rest = format!("taken; read -r interrupt\n{result}\ncat >/dev/null\n");
    let harness = start(ClaudeConfig { program: stand_in(&place, &rest), ..ClaudeConfig::default() }).await;
    harness.until("the first turn", |told| told.0 == "agent.system_message").await;
    harness.send("message_1", MessageType::Interrupt, " ").await;
    // The program must not be gone before it was started.
    harness.keep(place);
    harness
}

#[tokio::test]
async fn an_interrupt_that_crosses_the_end_of_a_turn_leaves_the_end_as_it_is() {
    let mut harness = crossed("done_").await;
    let outcome = harness.outcome().await;
    assert_eq!(outcome.ending, Ending::Completed { stop_reason: "end_turn".to_owned() });
    assert_eq!(harness.told_of("agent.interrupted").len(), 0, "there was nothing to stop");
    assert_eq!(outcome.undelivered.len(), 1);

    let mut harness =
        crossed(r#"echo '{"type":"result","subtype":"error_max_turns","is_error":true}'"#).await;
    assert_eq!(harness.outcome().await.ending, Ending::MaxTurns);
    let failed = r#"echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"no"}'"#;
    let error = crossed(failed).await.outcome().await.error().unwrap();
    assert_eq!((error.class, error.message.as_str()), (ErrorClass::Auth, "no"));
}

/// An answer with all of its words, and the end of a turn that lost its connection.
fn answered_and_cut(stop_reason: &str) -> String {
    let event = |event: Value| format!("echo '{}'\n", json!({"type": "stream_event", "event": event}));
    let message = json!({"id": "m", "model": "fake-1", "role": "assistant", "content": [], "usage": {}});
    event(json!({"type": "message_start", "message": message}))
        + &event(json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {}}))
        + &event(json!({"type": "message_stop"}))
        + r#"echo '{"type":"result","subtype":"success","is_error":true,"result":"Connection closed"}'"#
        + "\n"
}

#[tokio::test]
async fn a_connection_lost_after_the_last_word_is_no_failure() {
    let place = TempDir::new().unwrap();
    let program = stand_in(&place, &format!("taken\n{}cat >/dev/null\n", answered_and_cut("end_turn")));
    let mut harness = start(ClaudeConfig { program, ..ClaudeConfig::default() }).await;
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!(harness.told_of("agent.stream_error").len(), 0);
}

#[tokio::test]
async fn what_was_never_answered_is_not_asked_for_again() {
    let place = TempDir::new().unwrap();
    let gives_up = r#"echo '{"type":"result","subtype":"error_during_execution","is_error":true}'"#;
    let program = stand_in(&place, &format!("taken\n{gives_up}\ncat >/dev/null\n"));
    let mut harness = start(ClaudeConfig { program, ..ClaudeConfig::default() }).await;
    let error = harness.outcome().await.error().unwrap();
    assert!(error.message.contains("error_during_execution"), "{error}");
    assert_eq!(harness.told_of("agent.stream_error").len(), 0);
}

#[tokio::test]
async fn a_connection_that_is_lost_again_and_again_is_a_failure() {
    let place = TempDir::new().unwrap();
    let cut = answered_and_cut("tool_use");
    let rest = format!("taken\n{cut}while read -r words; do printf x >> told\n{cut}done\n");
    let program = stand_in(&place, &rest);
    let mut harness = start(ClaudeConfig { program, ..ClaudeConfig::default() }).await;
    let error = harness.outcome().await.error().unwrap();
    assert_eq!((error.class, error.message.as_str()), (ErrorClass::Network, "Connection closed"));
    let asked = std::fs::read_to_string(harness.dir.path().join("told")).unwrap();
    assert_eq!(asked.len(), 5, "it is asked for the rest a few times");
    assert_eq!(harness.told_of("agent.stream_error").len(), 5);
}

#[tokio::test]
async fn a_result_that_cannot_be_read_ends_the_run() {
    let long = r#"printf '{"is_error":false,"result":"'; head -c 40000000 /dev/zero | tr '\0' 'x'; echo '","type":"result"}'"#;
    for result in [r#"echo '{"type":"result","subtype":5}'"#, long] {
        let place = TempDir::new().unwrap();
        let program = stand_in(&place, &format!("taken\n{result}\ncat >/dev/null\n"));
        let error = start(ClaudeConfig { program, ..ClaudeConfig::default() }).await.outcome().await.error();
        assert_eq!(error.unwrap().class, ErrorClass::Protocol, "{result}");
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_refused() {
    let head =
        r#"{"type":"control_request","request_id":"q1","request":{"subtype":"can_use_tool","tool_name":"#;
    let long = format!(
        r#"printf '{head}"Write","input":{{"content":"'; head -c 40000000 /dev/zero | tr '\0' 'x'; echo '"}}}}}}'"#
    );
    for request in [format!("echo '{head}7}}}}'"), long] {
        let place = TempDir::new().unwrap();
        let rest = format!(
            "taken\n{request}\nread -r answer; printf %s \"$answer\" > answer\ndone_\ncat >/dev/null\n"
        );
        let mut harness =
            start(ClaudeConfig { program: stand_in(&place, &rest), ..ClaudeConfig::default() }).await;
        assert!(harness.outcome().await.success());
        let answer = read_json(&harness.dir.path().join("answer"));
        assert_eq!(
            (&answer["response"]["subtype"], &answer["response"]["request_id"]),
            (&json!("error"), &json!("q1"))
        );
    }
}

/// The first question is never answered; the second one is when the first is no longer asked.
#[derive(Default)]
struct OneAfterTheOther {
    first_gone: Arc<Notify>,
}

struct TellsItsEnd(Arc<Notify>);

impl Drop for TellsItsEnd {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[async_trait]
impl Asks for OneAfterTheOther {
    async fn ask(&self, question: Question) -> Answer {
        match question.tool.as_str() {
            "First" => {
                let _end = TellsItsEnd(Arc::clone(&self.first_gone));
                std::fs::write(question.input["sign"].as_str().unwrap(), "").unwrap();
                std::future::pending().await
            }
            "Second" => {
                self.first_gone.notified().await;
                // The run has to see that the first is gone before it hears this.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                Answer::Allow { instead: None }
            }
            _ => panic!("whoever is asked may break down"),
        }
    }
}

#[tokio::test]
async fn a_question_that_is_taken_back_does_not_hold_up_the_next_one() {
    let place = TempDir::new().unwrap();
    let rest = r#"
taken
ask() { echo '{"type":"control_request","request_id":"'$1'","request":{"subtype":"can_use_tool","tool_name":"'$1'","input":{"sign":"'$PWD'/asked"}}}'; }
ask First; ask Second
while [ ! -e asked ]; do sleep 0.02; done
echo '{"type":"control_cancel_request","request_id":"First"}'
read -r answer; printf %s "$answer" > second
ask Third
read -r answer; printf %s "$answer" > third
done_; cat >/dev/null
"#;
    let config = ClaudeConfig { program: stand_in(&place, rest), ..ClaudeConfig::default() };
    let setup = Setup {
        runtime: Some(Box::new(ClaudeRuntime::new(config))),
        permission_mode: PermissionMode::Ask,
        asks: Arc::new(OneAfterTheOther::default()),
        ..Setup::default()
    };
    let mut harness = Harness::start_with(vec![], setup, |_| ()).await;
    assert!(harness.outcome().await.success());
    let answer = |name: &str| read_json(&harness.dir.path().join(name))["response"].clone();
    assert_eq!(
        (&answer("second")["request_id"], &answer("second")["response"]["behavior"]),
        (&json!("Second"), &json!("allow"))
    );
    assert_eq!(answer("third")["response"]["behavior"], "deny", "whoever breaks down has not allowed it");
}

#[tokio::test]
async fn a_tool_that_the_run_does_not_have_is_refused_by_the_hook() {
    let place = TempDir::new().unwrap();
    let rest = r#"
taken
echo '{"type":"control_request","request_id":"h1","request":{"subtype":"hook_callback","input":{"hook_event_name":"PreToolUse","tool_name":"mcp__disk__erase","tool_use_id":"t0"}}}'
read -r answer; printf %s "$answer" > answer
done_; cat >/dev/null
"#;
    let tools = ToolPolicy { allowed: vec!["Read".to_owned()], ..ToolPolicy::default() };
    let config = ClaudeConfig { program: stand_in(&place, rest), tools, ..ClaudeConfig::default() };
    let mut harness = start(config).await;
    assert!(harness.outcome().await.success());
    let answer = read_json(&harness.dir.path().join("answer"));
    assert_eq!(
        answer["response"]["response"]["hookSpecificOutput"]["permissionDecision"], "deny",
        "{answer}"
    );
}

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
