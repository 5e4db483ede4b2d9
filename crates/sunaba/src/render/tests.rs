use serde_json::{Value, json};

use super::Story;
use crate::client::Event;
use crate::output::Colour;

fn event(event_type: &str, event_data: Value) -> Event {
    let source = if event_type.starts_with("agent.") { "agent" } else { "system" };
    Event {
        id: "e".into(),
        seq: 1,
        sandbox_id: "sbx_1".into(),
        event_type: event_type.into(),
        event_data,
        source: source.into(),
        created_at: "2026-01-01T00:00:00Z".parse().unwrap(),
    }
}

fn told(colour: Colour, events: &[(&str, Value)]) -> String {
    let mut story = Story::new(colour);
    let mut text: String =
        events.iter().map(|(event_type, data)| story.tell(&event(event_type, data.clone()))).collect();
    text.push_str(&story.finish_output());
    text
}

fn a_whole_run() -> Vec<(&'static str, Value)> {
    vec![
        ("sandbox.state_changed", json!({"from": "pending", "to": "creating"})),
        ("agent.started", json!({"runtime": "native", "model": "script:default"})),
        ("sandbox.state_changed", json!({"from": "creating", "to": "running"})),
        ("agent.heartbeat", json!({"status": "running"})),
        ("agent.thinking", json!({"turn": 1, "content": "First I look\nat the code."})),
        ("agent.message", json!({"turn": 1, "content": "I read the program."})),
        (
            "agent.tool_use",
            json!({"tool": "Read", "tool_use_id": "t1", "input": {"file_path": "/workspace/greet.sh"}}),
        ),
        (
            "agent.tool_completed",
            json!({"tool": "Read", "tool_use_id": "t1", "tool_response": "long text", "duration_ms": 3}),
        ),
        (
            "agent.tool_use",
            json!({"tool": "Edit", "tool_use_id": "t2", "input": {"file_path": "/workspace/greet.sh"}}),
        ),
        (
            "agent.file_edited",
            json!({
                "file_path": "/workspace/greet.sh", "change_type": "modified", "lines_added": 1, "lines_removed": 1,
                "diff_preview": "--- a/greet.sh\n+++ b/greet.sh\n@@ -1 +1 @@\n-echo hi\n+echo hello",
            }),
        ),
        (
            "agent.tool_completed",
            json!({"tool": "Edit", "tool_use_id": "t2", "tool_response": "ok", "duration_ms": 4}),
        ),
        ("agent.tool_use", json!({"tool": "Bash", "tool_use_id": "t3", "input": {"command": "sh test.sh"}})),
        ("agent.tool_output", json!({"tool_use_id": "t3", "stream": "stdout", "chunk": "ok 1 - says"})),
        ("agent.tool_output", json!({"tool_use_id": "t3", "stream": "stdout", "chunk": " hello\nok 2\n"})),
        (
            "agent.tool_completed",
            json!({"tool": "Bash", "tool_use_id": "t3", "tool_response": "ok 1\nok 2", "duration_ms": 2130}),
        ),
        ("agent.tool_result", json!({"tool_use_id": "t3", "result": "ok 1\nok 2"})),
        (
            "agent.message_injected",
            json!({"message_type": "user_message", "content": "Please say it louder"}),
        ),
        ("agent.tool_use", json!({"tool": "Bash", "tool_use_id": "t4", "input": {"command": "false"}})),
        (
            "agent.tool_completed",
            json!({"tool": "Bash", "tool_use_id": "t4", "tool_response": "no\nluck", "is_error": true, "duration_ms": 12}),
        ),
        ("agent.interrupted", json!({"reason": "user"})),
        ("agent.completed", json!({"success": true, "turns": 5, "input_tokens": 10, "output_tokens": 4})),
        (
            "gateway.git",
            json!({"service": "git-receive-pack", "allowed": true, "refs": [{"name": "refs/heads/feature/x"}]}),
        ),
        ("sandbox.state_changed", json!({"from": "completing", "to": "completed"})),
    ]
}

#[test]
fn a_story_in_plain_text() {
    insta::assert_snapshot!("story_plain", told(Colour::Off, &a_whole_run()));
}

#[test]
fn a_story_in_colour() {
    let shown = told(Colour::On, &a_whole_run()).replace('\x1b', "ESC");
    insta::assert_snapshot!("story_colour", shown);
}

#[test]
fn no_escape_sequence_of_an_agent_reaches_the_terminal() {
    let nasty = "x\x1b[2J\x1b]0;owned\x07\u{9b}1m\r";
    let fields = [
        "content",
        "tool",
        "tool_name",
        "chunk",
        "file_path",
        "diff_preview",
        "error",
        "message",
        "reason",
        "to",
        "runtime",
        "model",
        "change_type",
        "tool_response",
        "result",
        "message_type",
        "ref",
        "refused",
        "branch",
        "host",
    ];
    let mut data: Value = fields.iter().map(|name| ((*name).to_owned(), json!(nasty))).collect();
    data["input"] = json!({ "command": nasty });
    data["is_error"] = json!(true);
    data["refs"] = json!([{ "name": format!("refs/heads/{nasty}") }, { "name": nasty, "refused": nasty }]);
    let types = [
        "agent.started",
        "agent.thinking",
        "agent.message",
        "agent.tool_use",
        "agent.tool_output",
        "agent.tool_completed",
        "agent.tool_result",
        "agent.file_edited",
        "agent.message_injected",
        "agent.interrupted",
        "agent.waiting",
        "agent.error",
        "agent.failed",
        "agent.completed",
        "sandbox.state_changed",
        "gateway.git",
        "gateway.egress",
        "anything.else",
    ];
    for event_type in types {
        let shown = told(Colour::Off, &[(event_type, data.clone())]);
        let bad = shown.chars().find(|letter| letter.is_control() && *letter != '\n');
        assert_eq!(bad, None, "{event_type} gave {shown:?}");
    }
}

#[test]
fn a_plain_worker_is_understood_too() {
    let shown = told(
        Colour::Off,
        &[
            ("agent.tool_use", json!({"tool_name": "Bash", "tool_id": "a", "tool_input": {"command": "ls"}})),
            ("agent.tool_result", json!({"tool_id": "a", "result": "one\ntwo"})),
        ],
    );
    assert_eq!(shown, "◆ Bash ls\n  │ one\n  │ two\n");
}

#[test]
fn long_answers_are_cut_with_a_count() {
    let answer = (1..=20).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    let shown =
        told(Colour::Off, &[("agent.tool_completed", json!({"tool": "Bash", "tool_response": answer}))]);
    assert!(shown.ends_with("  │ line 12\n  │ … 8 more lines\n"), "{shown}");
}
