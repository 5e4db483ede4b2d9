use serde_json::{Value, json};

use super::{Look, Story};
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
    let rest = "sunaba logs sbx_1 --full".to_owned();
    told_with(Look { colour, width: None, full: false, rest }, events)
}

fn told_with(look: Look, events: &[(&str, Value)]) -> String {
    let mut story = Story::new(look);
    story.sender_is("msg_1", "ana");
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
            json!({"message_type": "user_message", "message_id": "msg_1", "content": "Please say it louder"}),
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
fn what_gives_its_place_up_has_neither_failed_nor_completed() {
    let shown = told(
        Colour::Off,
        &[
            ("sandbox.suspending", json!({"reason": "nobody has answered"})),
            ("agent.failed", json!({"error": "told to end"})),
            ("sandbox.state_changed", json!({"to": "completed", "reason": "nobody has answered"})),
        ],
    );
    let lines: Vec<&str> = shown.lines().collect();
    let over = "◌ its sandbox is given up; the task goes on in a new one";
    assert_eq!(lines, ["◌ suspended: nobody has answered", over]);
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
    assert!(shown.ends_with("  │ line 12\n  │ … 8 more lines (sunaba logs sbx_1 --full)\n"), "{shown}");
}

fn call(id: &str, tool: &str, input: Value) -> (&'static str, Value) {
    ("agent.tool_use", json!({"tool": tool, "tool_use_id": id, "input": input}))
}

fn wrote(id: &str, chunk: &str) -> (&'static str, Value) {
    ("agent.tool_output", json!({"tool_use_id": id, "chunk": chunk}))
}

fn answered(id: &str, response: &str, is_error: bool) -> (&'static str, Value) {
    (
        "agent.tool_completed",
        json!({"tool_use_id": id, "tool_response": response, "is_error": is_error, "duration_ms": 7}),
    )
}

#[test]
fn every_result_stands_under_its_own_call() {
    let in_order = [
        call("a", "Read", json!({"file_path": "/workspace/calc.py"})),
        call("b", "Bash", json!({"command": "make"})),
        call("c", "Bash", json!({"command": "make test"})),
        answered("a", "no such file", true),
        wrote("b", "built\n"),
        answered("b", "built", false),
        wrote("c", "tested"),
        answered("c", "[interrupted] the command was ended", true),
    ];
    insta::assert_snapshot!(told(Colour::Off, &in_order), @r"
    ◆ Read calc.py
      │ no such file
      ✗ failed · 7 ms
    ◆ Bash make
      │ built
      ✓ 7 ms
    ◆ Bash make test
      │ tested
      ■ interrupted
    ");
    let mixed = [
        call("a", "Bash", json!({"command": "one"})),
        call("b", "Bash", json!({"command": "two"})),
        wrote("a", "1\nun"),
        wrote("b", "2\n"),
        wrote("a", "finished\n"),
        ("agent.message", json!({"content": "Both run."})),
        answered("b", "2\nexit code 3", true),
        answered("a", "1", false),
    ];
    insta::assert_snapshot!(told(Colour::Off, &mixed), @r"
    ◆ Bash one
      │ 1
      │ un
    ◆ Bash two
      │ 2
    ◆ Bash one
      │ finished
    ● Both run.
    ◆ Bash two
      ✗ exit code 3 · 7 ms
    ◆ Bash one
      ✓ 7 ms
    ");
}

#[test]
fn only_what_git_wrote_is_shown_as_pushed() {
    let zeros = "0".repeat(40);
    let shown = told(
        Colour::Off,
        &[
            (
                "gateway.git",
                json!({"allowed": false, "reason": "only its own branch", "refs": [
                    {"name": "refs/heads/main", "written": false, "refused": null},
                ]}),
            ),
            (
                "gateway.git",
                json!({"allowed": true, "reason": null, "refs": [
                    {"name": "refs/heads/x", "written": true, "refused": null},
                    {"name": "refs/heads/y", "written": false, "refused": "non-fast-forward"},
                    {"name": "refs/heads/z", "new": zeros, "written": true, "refused": null},
                    {"name": "refs/sunaba/sbx_1", "written": true, "refused": null},
                ]}),
            ),
            ("gateway.git", json!({"allowed": false, "reason": "no access", "refs": []})),
        ],
    );
    insta::assert_snapshot!(shown, @r"
    ✗ push to main refused: only its own branch
    ⇡ pushed x
    ✗ push to y refused: non-fast-forward
    ⇡ deleted z
    ✗ git refused: no access
    ");
}

#[test]
fn a_failure_is_told_once_and_a_retry_is_none() {
    let shown = told(
        Colour::Off,
        &[
            ("agent.stream_error", json!({"error": "overloaded", "retrying": true})),
            ("agent.stream_error", json!({"error": "overloaded: gave up", "retrying": false})),
            ("agent.error", json!({"error": "overloaded: gave up"})),
            ("agent.failed", json!({"error": "overloaded: gave up"})),
            ("sandbox.state_changed", json!({"to": "failed", "reason": "overloaded: gave up"})),
        ],
    );
    assert_eq!(shown, "↻ trying again: overloaded\n✗ overloaded: gave up\n✘ failed\n");
}

#[test]
fn long_output_is_cut_and_progress_is_its_last_state() {
    let output: String = (1..=200).map(|n| format!("line {n}\n")).collect();
    let events = [
        call("a", "Bash", json!({"command": "make"})),
        wrote("a", "0%\r50%\r100"),
        wrote("a", "%\r\n"),
        wrote("a", &output),
        answered("a", &output, false),
    ];
    let shown = told(Colour::Off, &events);
    assert!(shown.starts_with("◆ Bash make\n  │ 100%\n  │ line 1\n"), "{shown}");
    let end = "  │ line 19\n  │ … 176 more lines (sunaba logs sbx_1 --full)\n  │ line 196\n";
    assert!(shown.contains(end), "{shown}");
    assert!(shown.ends_with("  │ line 200\n  ✓ 7 ms\n"), "{shown}");
    let mut cancelled = events[..4].to_vec();
    cancelled.push(("sandbox.state_changed", json!({"to": "cancelled"})));
    assert!(told(Colour::Off, &cancelled).ends_with("  │ line 200\n■ cancelled\n"), "its end is not lost");
    let look = Look { colour: Colour::Off, width: Some(20), full: true, rest: String::new() };
    assert_eq!(told_with(look.clone(), &events).lines().count(), 203, "--full shows all");
    let wide = [call("a", "Bash", json!({"command": "x".repeat(90)})), wrote("a", &("y".repeat(90) + "\n"))];
    let shown = told_with(Look { full: false, ..look }, &wide);
    assert!(shown.lines().all(|line| line.chars().count() == 20 && line.ends_with('…')), "{shown}");
}

#[test]
fn setup_network_and_budget_are_told_in_a_line_each() {
    let text = told(
        Colour::Off,
        &[
            ("sandbox.waiting", json!({"reason": "no room"})),
            ("sandbox.setup", json!({"status": "started", "command": "npm ci"})),
            (
                "sandbox.setup",
                json!({"status": "failed", "command": "npm ci", "reason": "it ended with exit code 1", "output": "one\ntwo\x1b[2J\n"}),
            ),
            (
                "gateway.egress",
                json!({"host": "a.org", "port": 443, "decision": "allowed", "rule": "preset open", "count": 1}),
            ),
            (
                "gateway.egress",
                json!({"host": "b.org", "port": 443, "decision": "refused", "rule": "preset none", "count": 3}),
            ),
            ("gateway.budget", json!({"model": "m", "lowered_from": 8000, "lowered_to": 900})),
        ],
    );
    assert_eq!(
        text,
        "◌ waiting: no room\n⚙ setting up: npm ci\n⚙ setup failed: npm ci: it ended with exit code 1\n  │ one\n  │ two␛[2J\n\
         ⇢ network: b.org:443 refused by preset none (3 times)\n\
         $ the budget lowers the longest answer from 8000 to 900 tokens\n"
    );
}

#[test]
fn a_silence_is_told_as_it_goes_on() {
    let silent = |seconds| json!({"silent_seconds": seconds, "window_seconds": 75, "process": "lives"});
    let text = told(
        Colour::Off,
        &[
            ("sandbox.warned", silent(75)),
            ("sandbox.unresponsive", silent(113)),
            ("sandbox.interrupted", silent(150)),
            ("sandbox.heard_again", json!({})),
        ],
    );
    let head = "◷ nothing was heard from the sandbox for";
    assert_eq!(
        text,
        format!(
            "{head} 75 s\n{head} 113 s, although it lives\n{head} 150 s; it is asked to end\n◷ it is heard again\n"
        )
    );
}
