//! The `acp` runtime where no real agent goes by itself: broken, stuck, killed, not there, or one of which nothing is
//! known.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use sunaba_agent::{AcpAgent, AcpConfig, AcpRuntime, Answer, ErrorClass, PermissionMode};
use sunaba_types::MessageType;
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::conformance::stage::{Kind, Scripted, left_out, not_tried, until_file};
use crate::fake_model::{asks, says};
use crate::harness::{Harness, Setup};
use crate::interrupts::alive_in_group;
use crate::place::program;

/// Answers as an agent does until it is prompted; `$id` is the prompt's number.
const HELLO: &str = r#"
number() { printf %s "$1" | sed 's/.*"id":\([0-9]*\).*/\1/'; }
answer() { echo '{"jsonrpc":"2.0","id":'"$1"',"result":'"$2"'}'; }
refuse() { echo '{"jsonrpc":"2.0","id":'"$1"',"error":{"code":-32603,"message":"'"$2"'"}}'; }
update() { echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'"$1"'}}'; }
say() { update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}'; }
read -r line; answer "$(number "$line")" '{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}'
read -r line; answer "$(number "$line")" '{"sessionId":"s1"}'
case "$line" in *session/load*) touch loaded;; esac
read -r prompt; id=$(number "$prompt")
"#;

/// A program in an agent's place.
pub(crate) fn stand_in(place: &Path, rest: &str) -> AcpConfig {
    let path = place.join("stand-in");
    program(&path, &format!("{HELLO}{rest}"));
    AcpConfig::new(AcpAgent::Command(vec![path.display().to_string()]))
}

pub(crate) async fn start(config: AcpConfig) -> Harness {
    let runtime = Box::new(AcpRuntime::new(config));
    Harness::start_with(vec![], Setup { runtime: Some(runtime), ..Setup::default() }, |_| ()).await
}

#[tokio::test]
async fn an_agent_by_its_command_line_hears_a_message_when_its_turn_is_over() {
    let place = TempDir::new().unwrap();
    let rest = r#"
printf '%s\n' "$prompt" > first
say one; touch ready; while [ ! -e go ]; do sleep 0.05; done
answer "$id" '{"stopReason":"end_turn"}'
read -r prompt; printf '%s\n' "$prompt" > second
say two; answer "$(number "$prompt")" '{"stopReason":"end_turn"}'; cat >/dev/null
"#;
    let mut harness = start(stand_in(place.path(), rest)).await;
    until_file(&harness, "ready").await;
    harness.send("message_1", MessageType::UserMessage, "and then left").await;
    std::fs::write(harness.dir.path().join("go"), "").unwrap();
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!((outcome.turns, outcome.final_output.as_str()), (2, "two"));
    let heard = |name: &str| std::fs::read_to_string(harness.dir.path().join(name)).unwrap();
    assert!(heard("first").contains("be brief"), "what would be a system prompt stands before the task");
    assert!(heard("second").contains("and then left"));
    let injected = &harness.told_of("agent.message_injected")[0];
    assert_eq!((&injected["message_id"], &injected["turn"]), (&json!("message_1"), &json!(2)));
}

#[tokio::test]
async fn what_makes_no_sense_is_told_and_left_out() {
    let place = TempDir::new().unwrap();
    let nonsense = r#"
echo 'this is not JSON'
echo '{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":7}}}'
head -c 40000000 /dev/zero | tr '\0' 'x'; echo
update '{"sessionUpdate":"unheard_of","and":"harmless"}'
echo '{"jsonrpc":"2.0","id":99,"result":{}}'
i=0; while [ $i -lt 50 ]; do echo '{'; i=$((i+1)); done
say fine; answer "$id" '{"stopReason":"end_turn"}'; cat >/dev/null
"#;
    let mut harness = start(stand_in(place.path(), nonsense)).await;
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
    let config = stand_in(place.path(), "say half; echo 'no room left' >&2; exit 3\n");
    let mut harness = start(config).await;
    harness.send("message_1", MessageType::UserMessage, "too late").await;
    let outcome = harness.outcome().await;
    let error = outcome.error().unwrap();
    assert_eq!(error.class, ErrorClass::Crashed);
    assert!(error.message.contains("exit status: 3") && error.message.contains("no room left"), "{error}");
    assert_eq!(outcome.final_output, "half", "what it had said is kept");
    assert_eq!(harness.told_of("agent.stream_error")[0]["error_type"], "command_failed");
    assert_eq!(outcome.undelivered.len(), 1, "a message that nobody heard comes back");
}

#[tokio::test]
async fn an_interrupt_that_an_agent_dies_of_comes_back() {
    let place = TempDir::new().unwrap();
    let mut harness = start(stand_in(place.path(), "touch ready; read -r cancel; exit 3\n")).await;
    until_file(&harness, "ready").await;
    harness.send("message_1", MessageType::Interrupt, "turn left").await;
    let outcome = harness.outcome().await;
    assert_eq!(outcome.error().unwrap().class, ErrorClass::Crashed);
    assert_eq!(outcome.undelivered.len(), 1, "nobody heard it");
}

#[tokio::test]
async fn a_program_that_does_not_stop_is_ended_and_another_goes_on() {
    let place = TempDir::new().unwrap();
    let stuck = r#"
if [ -e loaded ]; then say again; answer "$id" '{"stopReason":"end_turn"}'; cat >/dev/null; exit; fi
echo $$ > pid; trap '' INT TERM
(trap '' INT TERM; sleep 300) & sleep 301
"#;
    let config = AcpConfig {
        interrupt_patience: Duration::from_millis(300),
        end_grace: Duration::from_millis(300),
        ..stand_in(place.path(), stuck)
    };
    let mut harness = start(config).await;
    let group = std::fs::read_to_string(until_file(&harness, "pid").await).unwrap().trim().to_owned();
    let began = Instant::now();
    harness.send("message_1", MessageType::Interrupt, "enough").await;
    harness.until_type("agent.interrupted").await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(alive_in_group(&group), Vec::<String>::new());
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "{outcome:?}");
    assert_eq!(outcome.final_output, "again");
    assert_eq!(harness.told_of("agent.message_injected")[0]["message_id"], "message_1");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_with_what_to_do() {
    for (agent, hint) in [
        (AcpAgent::Codex, "npm install -g @zed-industries/codex-acp@"),
        (AcpAgent::OpenCode, "npm install -g opencode-ai@"),
        (AcpAgent::Gemini, "npm install -g @google/gemini-cli@"),
        (AcpAgent::OpenHands, "python3 -m pip install openhands-agent-server=="),
    ] {
        let program = Some(vec!["/nowhere/agent".to_owned()]);
        let mut harness = start(AcpConfig { program, ..AcpConfig::new(agent) }).await;
        let error = harness.outcome().await.error().unwrap();
        assert_eq!(error.class, ErrorClass::Configuration);
        assert!(error.message.contains(hint), "{error}");
    }
}

#[tokio::test]
async fn an_agent_of_which_nothing_is_known_is_not_relied_upon_to_ask() {
    let place = TempDir::new().unwrap();
    let runtime = Box::new(AcpRuntime::new(stand_in(place.path(), "cat >/dev/null\n")));
    let setup = Setup { runtime: Some(runtime), permission_mode: PermissionMode::Ask, ..Setup::default() };
    let mut harness = Harness::start_with(vec![], setup, |_| ()).await;
    let error = harness.outcome().await.error().unwrap();
    assert_eq!(error.class, ErrorClass::Configuration);
    assert!(error.message.contains("cannot ask before it uses a tool"), "{error}");
}

#[tokio::test]
async fn told_to_end_while_it_starts_it_leaves_nothing() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("silent");
    program(&path, "echo $$ > pid\nexec sleep 300\n");
    let mut harness = start(AcpConfig::new(AcpAgent::Command(vec![path.display().to_string()]))).await;
    let pid = until_file(&harness, "pid").await;
    harness.shutdown.cancel();
    assert_eq!(harness.outcome().await.ending, sunaba_agent::Ending::Cancelled);
    let group = std::fs::read_to_string(pid).unwrap().trim().to_owned();
    assert_eq!(alive_in_group(&group), Vec::<String>::new());
}

#[tokio::test]
async fn accepted_edits_are_not_asked_for_and_commands_are() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("new.txt").display().to_string();
    let acts = vec![
        asks(&[("Write", json!({"file_path": path, "content": "one\n"}))]),
        asks(&[("Bash", json!({"command": "touch made"}))]),
        says("done"),
    ];
    let asking = Scripted::new(vec![Answer::Allow { instead: None }]);
    let setup =
        Setup { permission_mode: PermissionMode::AcceptEdits, asks: asking.clone(), ..Kind::Codex.setup() };
    let mut harness = Harness::start_at(place, acts, setup).await;
    assert!(harness.outcome().await.success());
    let asked: Vec<_> = asking.questions.lock().unwrap().iter().map(|asked| asked.tool.clone()).collect();
    assert_eq!(asked, ["Bash"]);
    assert!(PathBuf::from(path).exists() && harness.dir.path().join("made").exists());
}

#[tokio::test]
async fn killed_in_a_tool_it_leaves_nothing_running_and_says_so() {
    let command = "echo $$ > pid; echo $PPID > parent; touch ready; sleep 300";
    let mut harness = Kind::Codex.start(vec![asks(&[("Bash", json!({"command": command}))])]).await;
    until_file(&harness, "ready").await;
    let number =
        |name: &str| std::fs::read_to_string(harness.dir.path().join(name)).unwrap().trim().to_owned();
    let (group, agent) = (number("pid"), number("parent"));
    kill(Pid::from_raw(agent.parse().unwrap()), Signal::SIGKILL).unwrap();
    let outcome = harness.outcome().await;
    assert_eq!(outcome.error().unwrap().class, ErrorClass::Crashed);
    assert_eq!(alive_in_group(&group), Vec::<String>::new());
    assert_eq!(harness.told_of("agent.stream_error")[0]["error_type"], "sigkill");
    assert_eq!(harness.told_of("agent.tool_completed")[0]["is_error"], true);
    assert!(outcome.transcript.is_some(), "the conversation so far is kept");
}

/// Whatever would leave for somewhere else has to pass the proxy, where this waits for it.
async fn talks_to_nobody_else(kind: Kind, path: &str) {
    if let Some(why) = not_tried(kind) {
        return left_out(&format!("that {} talks to nobody else", kind.known().title), &why);
    }
    let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", outside.local_addr().unwrap());
    let mut config = kind.acp_config();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        config.env.push((name.to_owned(), proxy.clone()));
    }
    for name in ["NO_PROXY", "no_proxy"] {
        config.env.push((name.to_owned(), "127.0.0.1".to_owned()));
    }
    let acts = vec![asks(&[("Bash", json!({"command": "true"}))]), says("done")];
    let setup = Setup { runtime: Some(Box::new(AcpRuntime::new(config))), ..kind.setup() };
    let mut harness = Harness::start_with(acts, setup, |_| ()).await;
    tokio::select! {
        outcome = harness.outcome() => assert!(outcome.success(), "{outcome:?}"),
        visitor = outside.accept() => panic!("somebody wants to go out: {visitor:?}"),
    }
    let heads = harness.model.heads();
    assert!(heads.iter().all(|head| head.starts_with(&format!("POST {path}"))), "{heads:#?}");
    assert!(heads.iter().all(|head| head.contains("sandbox-token")), "{heads:#?}");
}

#[tokio::test]
async fn a_python_without_the_agent_says_how_to_install_it() {
    // Without the directories that hold packages.
    let program = Some(vec!["python3".to_owned(), "-S".to_owned()]);
    let mut harness = start(AcpConfig { program, ..AcpConfig::new(AcpAgent::OpenHands) }).await;
    let error = harness.outcome().await.error().unwrap();
    assert_eq!(error.class, ErrorClass::Configuration, "{error}");
    assert!(error.message.contains("python3 -m pip install openhands-agent-server=="), "{error}");
}

#[tokio::test]
async fn codex_talks_to_the_model_s_address_and_to_nobody_else() {
    talks_to_nobody_else(Kind::Codex, "/gateway/openai/v1/responses").await;
}

#[tokio::test]
async fn opencode_talks_to_the_model_s_address_and_to_nobody_else() {
    talks_to_nobody_else(Kind::OpenCode, "/gateway/openai/v1/chat/completions").await;
}

#[tokio::test]
async fn claude_s_adapter_talks_to_the_model_s_address_and_to_nobody_else() {
    talks_to_nobody_else(Kind::ClaudeAdapter, "/gateway/anthropic/v1/messages").await;
}

#[tokio::test]
async fn gemini_talks_to_the_model_s_address_and_to_nobody_else() {
    talks_to_nobody_else(Kind::Gemini, "/gateway/google/v1beta/models/gemini-2.5-pro:streamGenerateContent")
        .await;
}

#[tokio::test]
async fn openhands_talks_to_the_model_s_address_and_to_nobody_else() {
    talks_to_nobody_else(Kind::OpenHands, "/gateway/anthropic/v1/messages").await;
}
