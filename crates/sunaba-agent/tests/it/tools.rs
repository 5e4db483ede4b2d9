//! What each tool does, as the model sees it in its next request and people in the story.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_model::{Act, asks, head, says, tail, text, thinking, tool_with};
use crate::harness::{Harness, tool_result};

/// Runs one tool and gives what the model is told.
async fn one(name: &str, input: Value, prepare: impl FnOnce(&Path)) -> (String, bool, Harness) {
    let mut harness = Harness::start_in(vec![asks(&[(name, input)]), says("done")], prepare).await;
    assert!(harness.outcome().await.success());
    let (content, is_error) = tool_result(&harness.model.requests()[1], "t0");
    (content, is_error, harness)
}

#[tokio::test]
async fn a_whole_task_is_told_in_order() {
    let first = head()
        + &thinking(0, "let me see")
        + &text(1, "I will write it")
        + &tool_with(2, "t0", "Write", r#"{"file_path": "a/b.txt", "content": "one\ntwo\n"}"#)
        + &tool_with(3, "t1", "Bash", r#"{"command": "cat a/b.txt; echo oops >&2; exit 3"}"#)
        + &tail("tool_use");
    let mut harness = Harness::start(vec![Act::Stream(first), says("done")]).await;
    let outcome = harness.outcome().await;
    assert_eq!((outcome.final_output.as_str(), outcome.stop_reason()), ("done", "end_turn"));

    let mut types = harness.types();
    types.retain(|told| *told != "agent.tool_output");
    assert_eq!(
        types,
        [
            "agent.user_message",
            "agent.assistant_message",
            "agent.thinking",
            "agent.message",
            "agent.tool_use",
            "agent.tool_use",
            "agent.file_edited",
            "agent.tool_completed",
            "agent.tool_result",
            "agent.tool_completed",
            "agent.tool_result",
            "agent.assistant_message",
            "agent.message",
        ]
    );
    let answer = &harness.told_of("agent.assistant_message")[0];
    assert_eq!(
        Value::Object(answer.clone()),
        json!({"turn": 1, "model": "fake-1", "stop_reason": "tool_use", "block_count": 4})
    );

    let requests = harness.model.requests();
    let (output, is_error) = tool_result(&requests[1], "t1");
    assert!(is_error && output.contains("one\ntwo\n") && output.ends_with("exit code 3"), "{output}");
    let answer = &requests[1]["messages"][1]["content"];
    let kinds: Vec<_> = (0..4).map(|index| answer[index]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use", "tool_use"], "blocks go back in their order");
    assert_eq!(answer[0]["signature"], "signed");
    assert!(requests[0]["system"][0]["text"].as_str().unwrap().ends_with("be brief"));
    let head = &harness.model.heads()[0];
    assert!(head.starts_with("POST /gateway/anthropic/v1/messages HTTP/1.1"), "{head}");
    assert!(head.contains("x-api-key: sandbox-token"), "{head}");
}

#[tokio::test]
async fn a_written_file_is_told_with_its_diff() {
    let input = json!({"file_path": "a.txt", "old_string": "two", "new_string": "2"});
    let (content, is_error, harness) = one("Edit", input, |dir| {
        std::fs::write(dir.join("a.txt"), "one\ntwo\nthree\n").unwrap();
    })
    .await;
    assert!(!is_error, "{content}");
    assert_eq!(std::fs::read_to_string(harness.dir.path().join("a.txt")).unwrap(), "one\n2\nthree\n");
    let told = Value::Object(harness.told_of("agent.file_edited")[0].clone());
    let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
    let expected = json!({
        "turn": 1, "tool_use_id": "t0", "file_path": "a.txt", "change_type": "modified",
        "lines_added": 1, "lines_removed": 1, "diff_preview": diff, "full_diff": diff,
        "full_diff_available": true, "full_diff_size": diff.len(),
    });
    assert_eq!(told, expected);
}

#[tokio::test]
async fn edit_says_why_it_cannot() {
    let edit =
        |old: &str, new: &str| ("Edit", json!({"file_path": "a.txt", "old_string": old, "new_string": new}));
    let all = json!({"file_path": "a.txt", "old_string": "x", "new_string": "y", "replace_all": true});
    let tools = [
        edit("nowhere", "y"),
        edit("x", "y"),
        edit("x", "x"),
        edit("", "y"),
        ("Edit", json!({"file_path": "missing", "old_string": "x", "new_string": "y"})),
        ("Edit", json!({"file_path": "a.txt"})),
        ("Edit", all),
    ];
    let mut harness = Harness::start_in(vec![asks(&tools), says("done")], |dir| {
        std::fs::write(dir.join("a.txt"), "x x x").unwrap();
    })
    .await;
    harness.outcome().await;
    let request = &harness.model.requests()[1];
    let reasons = [
        "is not in a.txt",
        "is 3 times in a.txt",
        "are the same",
        "is empty",
        "does not exist",
        "missing field",
    ];
    for (index, reason) in reasons.iter().enumerate() {
        let (content, is_error) = tool_result(request, &format!("t{index}"));
        assert!(is_error && content.contains(reason), "{index}: {content}");
    }
    assert!(!tool_result(request, "t6").1);
    assert_eq!(std::fs::read_to_string(harness.dir.path().join("a.txt")).unwrap(), "y y y");
}

#[tokio::test]
async fn read_numbers_lines_and_says_why_it_cannot() {
    let tools = [
        ("Read", json!({"file_path": "a.txt"})),
        ("Read", json!({"file_path": "a.txt", "offset": 2, "limit": 1})),
        ("Read", json!({"file_path": "a.txt", "offset": 9})),
        ("Read", json!({"file_path": "."})),
        ("Read", json!({"file_path": "binary"})),
        ("Read", json!({"file_path": "/nowhere/at/all"})),
        ("Frobnicate", json!({})),
    ];
    let mut harness = Harness::start_in(vec![asks(&tools), says("done")], |dir| {
        std::fs::write(dir.join("a.txt"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(dir.join("binary"), b"\x7fELF\0\0").unwrap();
    })
    .await;
    harness.outcome().await;
    let request = &harness.model.requests()[1];
    assert_eq!(tool_result(request, "t0"), ("     1\tone\n     2\ttwo\n     3\tthree\n".to_owned(), false));
    let (part, _) = tool_result(request, "t1");
    assert!(part.starts_with("     2\ttwo\n(lines 2 to 2 of 3"), "{part}");
    for (id, reason) in [
        ("t2", "has 3 lines"),
        ("t3", "is a directory"),
        ("t4", "binary"),
        ("t5", "does not exist"),
        ("t6", "no tool named"),
    ] {
        let (content, is_error) = tool_result(request, id);
        assert!(is_error && content.contains(reason), "{id}: {content}");
    }
}

fn small_tree(dir: &Path) {
    for (name, content) in [
        ("src/main.rs", "fn main() {\n    helper();\n}\n"),
        ("src/deep/helper.rs", "// above\nfn helper() {}\n// below\nfn other() {}\n"),
        ("notes.md", "Helper notes\n"),
        (".git/config", "helper\n"),
    ] {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

#[tokio::test]
async fn glob_finds_by_name_outside_of_git() {
    let tools = [
        ("Glob", json!({"pattern": "**/*.rs"})),
        ("Glob", json!({"pattern": "src/*.rs"})),
        ("Glob", json!({"pattern": "*", "path": "src/deep"})),
        ("Glob", json!({"pattern": "**/config"})),
        ("Glob", json!({"pattern": "{a"})),
    ];
    let mut harness = Harness::start_in(vec![asks(&tools), says("done")], small_tree).await;
    harness.outcome().await;
    let request = &harness.model.requests()[1];
    let (all, _) = tool_result(request, "t0");
    let mut all: Vec<_> = all.lines().collect();
    all.sort_unstable();
    assert_eq!(all, ["src/deep/helper.rs", "src/main.rs"]);
    assert_eq!(tool_result(request, "t1").0, "src/main.rs");
    assert_eq!(tool_result(request, "t2").0, "src/deep/helper.rs");
    assert_eq!(tool_result(request, "t3").0, "no file matches");
    assert!(tool_result(request, "t4").1);
    // They ran at once, so any of them may have been told first.
    let told = harness.told_of("agent.tool_result");
    let told = told.iter().find(|told| told["tool_use_id"] == "t0").unwrap();
    assert_eq!((&told["tool"], &told["input"]), (&json!("Glob"), &json!({"pattern": "**/*.rs"})));
}

#[tokio::test]
async fn grep_finds_lines_outside_of_git() {
    let content = |more: Value| {
        let mut input = json!({"pattern": "^fn helper", "output_mode": "content"});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("Grep", input)
    };
    let tools = [
        ("Grep", json!({"pattern": "helper", "-i": true})),
        content(json!({})),
        content(json!({"-C": 1})),
        ("Grep", json!({"pattern": "fn", "output_mode": "count", "glob": "*.rs"})),
        ("Grep", json!({"pattern": "zebra"})),
        ("Grep", json!({"pattern": "("})),
        ("Grep", json!({"pattern": "fn", "output_mode": "content", "head_limit": 1})),
    ];
    let mut harness = Harness::start_in(vec![asks(&tools), says("done")], small_tree).await;
    harness.outcome().await;
    let request = &harness.model.requests()[1];
    assert_eq!(tool_result(request, "t0").0, "notes.md\nsrc/deep/helper.rs\nsrc/main.rs\n");
    assert_eq!(tool_result(request, "t1").0, "src/deep/helper.rs:2:fn helper() {}\n");
    let around =
        "src/deep/helper.rs-1-// above\nsrc/deep/helper.rs:2:fn helper() {}\nsrc/deep/helper.rs-3-// below\n";
    assert_eq!(tool_result(request, "t2").0, around);
    assert_eq!(tool_result(request, "t3").0, "src/deep/helper.rs:2\nsrc/main.rs:1\n");
    assert_eq!(tool_result(request, "t4").0, "nothing matches\n");
    assert!(tool_result(request, "t5").1);
    let (cut, _) = tool_result(request, "t6");
    assert!(cut.lines().count() == 2 && cut.contains("(cut here"), "{cut}");
}

#[tokio::test]
async fn output_is_streamed_while_the_command_runs() {
    let command = "echo first; until [ -e go ]; do sleep 0.01; done; echo second";
    let acts = vec![asks(&[("Bash", json!({"command": command}))]), says("done")];
    let mut harness = Harness::start(acts).await;
    let (_, told) = harness.until_type("agent.tool_output").await;
    assert_eq!(
        Value::Object(told),
        json!({"tool_use_id": "t0", "stream": "stdout", "chunk": "first\n", "offset": 0, "truncated": false})
    );
    assert!(harness.told_of("agent.tool_completed").is_empty());
    std::fs::write(harness.dir.path().join("go"), "").unwrap();
    harness.outcome().await;
    let chunks: String =
        harness.told_of("agent.tool_output").iter().map(|told| told["chunk"].as_str().unwrap()).collect();
    assert_eq!(chunks, "first\nsecond\n");
    assert_eq!(tool_result(&harness.model.requests()[1], "t0"), ("first\nsecond\n".to_owned(), false));
}

#[tokio::test]
async fn endless_output_is_bounded_everywhere() {
    let input = json!({"command": "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo the end"});
    let (content, is_error, harness) = one("Bash", input, |_| ()).await;
    assert!(!is_error);
    assert!(content.chars().count() < 30_100 && content.contains("characters left out"));
    assert!(content.ends_with("the end\n"), "the end is kept");
    let outputs = harness.told_of("agent.tool_output");
    let sent: usize = outputs.iter().map(|told| told["chunk"].as_str().unwrap().len()).sum();
    assert!(sent > 1024 * 1024 && sent < 1024 * 1024 + 100, "{sent}");
    assert_eq!(outputs.last().unwrap()["truncated"], true);
    let told = &harness.told_of("agent.tool_result")[0];
    assert_eq!((told["result"].as_str().unwrap().len(), &told["result_truncated"]), (5_000, &json!(true)));
}

#[tokio::test]
async fn a_slow_command_is_ended_at_its_limit() {
    let input = json!({"command": "echo before; sleep 300", "timeout": 200});
    let began = std::time::Instant::now();
    let (content, is_error, _) = one("Bash", input, |_| ()).await;
    assert!(
        is_error && content.contains("before") && content.contains("took longer than 0.2 s"),
        "{content}"
    );
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_command_has_no_input_and_runs_in_the_work_tree() {
    let (content, is_error, harness) = one("Bash", json!({"command": "cat; pwd -P"}), |_| ()).await;
    assert!(!is_error);
    let dir = harness.dir.path().canonicalize().unwrap();
    assert_eq!(content.trim_end(), dir.to_str().unwrap());
}
