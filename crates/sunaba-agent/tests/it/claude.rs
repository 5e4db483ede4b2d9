//! The `claude` runtime where the real CLI does not go by itself: killed, stuck, broken, or not there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use sunaba_agent::{ClaudeConfig, ClaudeRuntime, ErrorClass};
use sunaba_types::MessageType;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::conformance::stage::{Kind, claude_config, until_file};
use crate::fake_model::{asks, says};
use crate::harness::{Harness, Setup};
use crate::interrupts::alive_in_group;
use crate::place::program;

/// Answers the first message as the CLI does; `$uuid` is that message's.
pub(crate) const HELLO: &str = r#"
read -r initialize
echo '{"type":"control_response","response":{"subtype":"success","request_id":"initialize"}}'
read -r prompt
uuid=$(printf %s "$prompt" | sed 's/.*"uuid":"\([^"]*\)".*/\1/')
echo '{"type":"system","subtype":"init","session_id":"7f9c2ba4-e88f-4d27-a8b6-5e3f6a0f1c11"}'
taken() { echo '{"type":"user","message":{"role":"user","content":"x"},"uuid":"'"$uuid"'","isReplay":true}'; }
done_() { echo '{"subtype":"success","is_error":false,"result":"fine","stop_reason":"end_turn","type":"result"}'; }
"#;

/// A program in the CLI's place.
pub(crate) fn stand_in(place: &TempDir, rest: &str) -> PathBuf {
    script(place, &format!("{HELLO}{rest}"))
}

pub(crate) fn script(place: &TempDir, lines: &str) -> PathBuf {
    let path = place.path().join("stand-in");
    program(&path, lines);
    path
}

pub(crate) async fn start(config: ClaudeConfig) -> Harness {
    let runtime = Box::new(ClaudeRuntime::new(config));
    Harness::start_with(vec![], Setup { runtime: Some(runtime), ..Setup::default() }, |_| ()).await
}

#[tokio::test]
async fn what_makes_no_sense_is_told_and_left_out() {
    let place = TempDir::new().unwrap();
    let nonsense = r#"
taken
echo 'this is not JSON'
echo '{"type":"assistant","message":"neither is this a message"}'
head -c 40000000 /dev/zero | tr '\0' 'x'; echo
echo '{"type":"unheard_of","and":"harmless"}'
i=0; while [ $i -lt 50 ]; do echo '{'; i=$((i+1)); done
done_
cat >/dev/null
"#;
    let program = stand_in(&place, nonsense);
    let mut harness = start(ClaudeConfig { program, ..ClaudeConfig::default() }).await;
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    let told: Vec<_> =
        harness.told_of("agent.system_message").into_iter().map(|told| told["metadata"].clone()).collect();
    let unreadable: Vec<_> = told.iter().filter(|told| told["subtype"] == "unreadable_output").collect();
    assert_eq!(unreadable.len(), 20, "the rest is only counted");
    assert_eq!(unreadable[0]["beginning"], "this is not JSON");
    assert_eq!(unreadable[2]["size_bytes"], 40_000_000);
}

#[tokio::test]
async fn an_end_in_the_middle_is_told_with_its_last_words() {
    let place = TempDir::new().unwrap();
    let program = stand_in(&place, "taken\necho 'no room left' >&2\nexit 3\n");
    let mut harness = start(ClaudeConfig { program, ..ClaudeConfig::default() }).await;
    harness.send("message_1", MessageType::UserMessage, "too late").await;
    let outcome = harness.outcome().await;
    let error = outcome.error().unwrap();
    assert_eq!(error.class, ErrorClass::Crashed);
    assert!(error.message.contains("exit status: 3") && error.message.contains("no room left"), "{error}");
    assert_eq!(harness.told_of("agent.stream_error")[0]["error_type"], "command_failed");
    assert_eq!(harness.told_of("agent.error")[0]["error_class"], "crashed");
    assert_eq!(outcome.undelivered.len(), 1, "a message that nobody heard comes back");
}

#[tokio::test]
async fn a_program_that_does_not_stop_is_ended_and_another_goes_on() {
    let place = TempDir::new().unwrap();
    let stuck = r#"
if [ -e second ]; then taken; done_; cat >/dev/null; exit; fi
touch second; echo $$ > pid; taken; trap '' INT TERM
(trap '' INT TERM; sleep 300) & sleep 301
"#;
    let config = ClaudeConfig {
        program: stand_in(&place, stuck),
        interrupt_patience: Duration::from_millis(300),
        end_grace: Duration::from_millis(300),
        ..ClaudeConfig::default()
    };
    let mut harness = start(config).await;
    let path = until_file(&harness, "pid").await;
    harness.until("the first turn", |told| told.0 == "agent.system_message").await;
    let group = std::fs::read_to_string(path).unwrap().trim().to_owned();
    let began = Instant::now();
    harness.send("message_1", MessageType::Interrupt, "enough").await;
    harness.until_type("agent.interrupted").await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(alive_in_group(&group), Vec::<String>::new());
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!(harness.told_of("agent.message_injected")[0]["message_id"], "message_1");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_with_what_to_do() {
    let program = PathBuf::from("/nowhere/claude");
    let mut harness = start(ClaudeConfig { program, ..ClaudeConfig::default() }).await;
    let error = harness.outcome().await.error().unwrap();
    assert_eq!(error.class, ErrorClass::Configuration);
    assert!(error.message.contains("npm install -g @anthropic-ai/claude-code@"), "{error}");
}

#[tokio::test]
async fn killed_in_a_tool_it_leaves_nothing_running_and_says_so() {
    let command = "echo $$ > pid; echo $PPID > parent; touch ready; sleep 300";
    let mut harness = Kind::Claude.start(vec![asks(&[("Bash", json!({"command": command}))])]).await;
    until_file(&harness, "ready").await;
    let number =
        |name: &str| std::fs::read_to_string(harness.dir.path().join(name)).unwrap().trim().to_owned();
    let (group, cli) = (number("pid"), number("parent"));
    kill(Pid::from_raw(cli.parse().unwrap()), Signal::SIGKILL).unwrap();
    let outcome = harness.outcome().await;
    assert_eq!(outcome.error().unwrap().class, ErrorClass::Crashed);
    assert_eq!(alive_in_group(&group), Vec::<String>::new());
    assert_eq!(harness.told_of("agent.stream_error")[0]["error_type"], "sigkill");
    assert_eq!(harness.told_of("agent.tool_completed")[0]["is_error"], true);
    assert!(outcome.transcript.is_some(), "the conversation so far is kept");
}

/// Whatever would leave for somewhere else has to pass the proxy, where this waits for it.
#[tokio::test]
async fn it_talks_to_the_model_s_address_and_to_nobody_else() {
    let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", outside.local_addr().unwrap());
    let mut config = claude_config();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        config.env.push((name.to_owned(), proxy.clone()));
    }
    for name in ["NO_PROXY", "no_proxy"] {
        config.env.push((name.to_owned(), "127.0.0.1".to_owned()));
    }
    let runtime = Box::new(ClaudeRuntime::new(config));
    let acts = vec![asks(&[("Bash", json!({"command": "env > environment"}))]), says("done")];
    let setup = Setup { runtime: Some(runtime), ..Setup::default() };
    let mut harness = Harness::start_with(acts, setup, |_| ()).await;
    tokio::select! {
        outcome = harness.outcome() => assert!(outcome.success(), "{outcome:?}"),
        visitor = outside.accept() => panic!("somebody wants to go out: {visitor:?}"),
    }
    let heads = harness.model.heads();
    assert!(heads.iter().all(|head| head.starts_with("POST /gateway/anthropic/v1/messages")), "{heads:#?}");
    assert!(
        heads.iter().all(|head| head.to_ascii_lowercase().contains("x-api-key: sandbox-token")),
        "{heads:#?}"
    );
    assert!(harness.model.requests().iter().all(|request| request["model"] == "fake"));
    let seen = std::fs::read_to_string(harness.dir.path().join("environment")).unwrap();
    assert!(
        seen.contains(&format!("CLAUDE_CONFIG_DIR={}", harness.home_path.join("claude").display())),
        "{seen}"
    );
}
