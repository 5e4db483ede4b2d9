//! What is the Gemini CLI's own: how it is set up, what it leaves out of the protocol, and what it writes down.
//!
//! It tells of a tool neither its arguments nor what a command wrote; the first are in the call's name and title, the
//! second is in its record of the conversation. When it takes a session up it begins a record of its own under a name
//! made of the minute, and one that was begun in the same minute is emptied by that: so a record is given another name
//! before. What it was not allowed to finish stays in its memory as a call without a result, which the model's API
//! refuses; after that it takes the session up from its record, where no such call is.

use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use walkdir::WalkDir;

use super::command::{Env, added};
use super::wire::ToolNews;
use crate::{RunContext, Usage};

/// Where its record of a call's result is waited for at most: it is written right after the call is told to be over.
const RESULT_PATIENCE: Duration = Duration::from_secs(1);
const RESULT_POLL: Duration = Duration::from_millis(10);
/// A command without a word is let run for so long, in seconds.
const SILENCE_SECONDS: u32 = 86_400;
/// What it says of a command that it ended itself.
const CANCELLED: &str = "Command cancelled by user.";
/// Tools that have the vendor work outside, or a person at the terminal.
const LEFT_OUT: [&str; 5] =
    ["google_web_search", "web_fetch", "ask_user", "enter_plan_mode", "exit_plan_mode"];
/// Its names of tools, and the contract's.
const NAMES: [(&str, &str); 6] = [
    ("run_shell_command", "Bash"),
    ("write_file", "Write"),
    ("replace", "Edit"),
    ("read_file", "Read"),
    ("grep_search", "Grep"),
    ("glob", "Glob"),
];

const SETTINGS: &str = "settings.json";
const SYSTEM_PROMPT: &str = "system.md";

/// What stands after its command. It asks before whatever changes something, so that what was there before can be
/// seen; whether somebody is asked is ours to say.
pub(super) fn arguments(ctx: &RunContext) -> [&str; 5] {
    ["-m", &ctx.model, "--skip-trust", "--approval-mode", "default"]
}

pub(super) fn env(ctx: &RunContext, dir: &Path) -> Env {
    let place = |name: &str| dir.join(name).display().to_string();
    let mut env = vec![
        ("GEMINI_CLI_HOME", dir.display().to_string()),
        ("GEMINI_API_KEY", ctx.api_key.expose().to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", ctx.google_base_url.clone()),
        // Those of the system go before a repository's own.
        ("GEMINI_CLI_SYSTEM_SETTINGS_PATH", place(SETTINGS)),
        // It would start itself anew with more memory, and a kill of the first leaves the second.
        ("GEMINI_CLI_NO_RELAUNCH", "true".to_owned()),
    ];
    if ctx.system_prompt.is_some() {
        env.push(("GEMINI_SYSTEM_MD", place(SYSTEM_PROMPT)));
    }
    env
}

/// Its settings, and what it is told besides the task.
pub(super) fn configure(ctx: &RunContext, dir: &Path) -> Result<()> {
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {
            "enableAutoUpdate": false, "enableAutoUpdateNotification": false, "sessionRetention": {"enabled": false},
        },
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "model": {"disableLoopDetection": true},
        "context": {"fileName": ["GEMINI.md", "AGENTS.md"]},
        "tools": {
            "exclude": LEFT_OUT, "sandbox": false,
            "shell": {"enableInteractiveShell": false, "inactivityTimeout": SILENCE_SECONDS},
        },
    });
    let own = dir.join(".gemini");
    std::fs::create_dir_all(&own)?;
    // Those of the system alone do not keep it from reporting to its vendor.
    for place in [dir, &own] {
        std::fs::write(place.join(SETTINGS), settings.to_string())?;
    }
    if let Some(words) = &ctx.system_prompt {
        std::fs::write(dir.join(SYSTEM_PROMPT), words)?;
    }
    std::fs::write(own.join("GEMINI.md"), added(ctx).unwrap_or_default())
}

/// What stands before a task that it would take for a command of its own.
pub(super) fn preamble(ctx: &RunContext) -> Option<String> {
    ctx.prompt.trim_start().starts_with(['/', '$']).then(|| "Your task:".to_owned())
}

/// Adds what is missing in the news of a tool call.
pub(super) async fn complete(news: &mut ToolNews, dir: &Path) {
    let theirs = news.tool_call_id.clone();
    // `run_shell_command__ID`: the tool's name, and the call's as the model gave it.
    let Some((name, id)) = theirs.split_once("__") else { return };
    id.clone_into(&mut news.tool_call_id);
    let title = news.title.take().unwrap_or_default();
    let known = NAMES.iter().find(|(own, _)| *own == name).map_or(name, |(_, ours)| *ours);
    news.title = Some(known.to_owned());
    let path = news.locations.iter().flatten().next().map(|location| location.path.clone());
    news.raw_input = match (known, path) {
        ("Bash", _) if !title.is_empty() => Some(json!({ "command": title })),
        (_, Some(path)) => Some(json!({ "file_path": path })),
        _ if title.is_empty() => None,
        _ => Some(json!({ "description": title })),
    };
    if known != "Bash" {
        return;
    }
    let is_over = news.status.as_deref() == Some("completed");
    if is_over && super::translate::content(news).as_deref() == Some(CANCELLED) {
        news.status = Some("failed".to_owned());
    } else if is_over {
        if let Some(words) = result(dir, &theirs).await {
            (news.raw_output, news.content) = (Some(Value::from(words)), None);
        }
    } else if news.status.as_deref() != Some("failed") {
        // Where it is to run, and what for: not what it wrote.
        news.content = None;
    }
}

/// What a call gave, as the record has it.
async fn result(dir: &Path, id: &str) -> Option<String> {
    let until = tokio::time::Instant::now() + RESULT_PATIENCE;
    loop {
        let found = records(dir).iter().rev().find_map(|record| result_in(record, id));
        if found.is_some() || tokio::time::Instant::now() >= until {
            return found;
        }
        tokio::time::sleep(RESULT_POLL).await;
    }
}

fn result_in(record: &Value, id: &str) -> Option<String> {
    let calls = record.get("toolCalls")?.as_array()?;
    let call = calls.iter().rev().find(|call| call["id"] == id)?;
    let response = call.pointer("/result/0/functionResponse/response")?;
    let words = response["output"].as_str().or_else(|| response["error"].as_str())?;
    // It is wrapped as something that the model must not obey.
    let inside = words.strip_prefix("<untrusted_context>\n").unwrap_or(words);
    Some(inside.strip_suffix("\n</untrusted_context>").unwrap_or(inside).to_owned())
}

/// The files of its records.
fn files(dir: &Path) -> Vec<PathBuf> {
    let is_record = |path: &Path| {
        let is_in_chats = path.parent().and_then(Path::file_name).is_some_and(|name| name == "chats");
        is_in_chats && path.extension().is_some_and(|end| end == "jsonl")
    };
    let all =
        WalkDir::new(dir.join(".gemini/tmp")).sort_by_file_name().into_iter().filter_map(|entry| entry.ok());
    all.map(walkdir::DirEntry::into_path).filter(|path| is_record(path)).collect()
}

/// Everything that it wrote down, in order. The end of a file may be cut off in the middle of a line.
fn records(dir: &Path) -> Vec<Value> {
    let texts = files(dir).into_iter().filter_map(|path| std::fs::read_to_string(path).ok());
    texts
        .flat_map(|text| text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<_>>())
        .collect()
}

/// What was used, by its record: a message is written down again when more is known of it.
pub(super) fn usage(dir: &Path) -> Usage {
    let mut by_message = BTreeMap::new();
    for record in records(dir) {
        if let (Some(id), Some(tokens)) = (record["id"].as_str(), record["tokens"].as_object()) {
            by_message.insert(id.to_owned(), tokens.clone());
        }
    }
    let mut all = Usage::default();
    for tokens in by_message.values() {
        let number = |name: &str| tokens.get(name).and_then(Value::as_u64).unwrap_or(0);
        all.add(Usage {
            input_tokens: number("input").saturating_sub(number("cached")),
            output_tokens: number("output") + number("thoughts"),
            cache_read_tokens: number("cached"),
            cache_write_tokens: 0,
        });
    }
    all
}

/// Makes its record fit to be taken up: under a name that is not of this minute, with only whole lines, and with the
/// result of each call once, because it writes results down twice and would send both.
pub(super) fn make_ready(dir: &Path, session: &str) -> Result<()> {
    let of_session = |path: &PathBuf| {
        std::fs::read_to_string(path)
            .is_ok_and(|text| text.lines().next().is_some_and(|head| head.contains(session)))
    };
    let mut found: Vec<_> = files(dir).into_iter().filter(of_session).collect();
    // What was begun by taking it up before holds nothing.
    found.sort_by_key(|path| path.metadata().map_or(0, |file| file.len()));
    let Some(record) = found.pop() else { return Ok(()) };
    for empty in found {
        std::fs::remove_file(empty)?;
    }
    let text = std::fs::read_to_string(&record)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let kept: String = whole.split_inclusive('\n').filter(|line| !is_only_results(line)).collect();
    let short = session.get(..8).ok_or_else(|| Error::other("a session's name is too short"))?;
    std::fs::write(record.with_file_name(format!("session-2000-01-01T00-00-{short}.jsonl.new")), kept)?;
    let ready = record.with_file_name(format!("session-2000-01-01T00-00-{short}.jsonl"));
    std::fs::rename(ready.with_extension("jsonl.new"), &ready)?;
    if ready != record {
        std::fs::remove_file(record)?;
    }
    Ok(())
}

fn is_only_results(line: &str) -> bool {
    let Ok(record) = serde_json::from_str::<Value>(line) else { return false };
    let parts = record["content"].as_array().filter(|_| record["type"] == "user");
    parts.is_some_and(|parts| {
        !parts.is_empty() && parts.iter().all(|part| part["functionResponse"].is_object())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "b1ec9160-3aa3-4ac1-817c-162a9c0628c0";

    fn record(dir: &Path, name: &str, lines: &[Value], tail: &str) -> PathBuf {
        let chats = dir.join(".gemini/tmp/work/chats");
        std::fs::create_dir_all(&chats).unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(chats.join(name), text + tail).unwrap();
        chats.join(name)
    }

    fn call(output: &str) -> Value {
        let response =
            json!({"functionResponse": {"id": "run_shell_command__t0", "response": {"output": output}}});
        json!({"id": "m1", "type": "gemini", "toolCalls": [{"id": "run_shell_command__t0", "result": [response]}],
            "tokens": {"input": 15, "output": 7, "cached": 5, "thoughts": 2}})
    }

    #[tokio::test]
    async fn a_command_is_told_with_what_it_wrote() {
        let dir = tempfile::tempdir().unwrap();
        record(
            dir.path(),
            "session-a.jsonl",
            &[call("<untrusted_context>\nOutput: hi\n</untrusted_context>")],
            "",
        );
        let news = |status: &str, text: &str| -> ToolNews {
            let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
            let fields = json!({"toolCallId": "run_shell_command__t0", "title": "echo hi", "kind": "execute",
                "status": status, "content": content});
            serde_json::from_value(fields).unwrap()
        };
        let mut begun = news("in_progress", "[current working directory /w]");
        complete(&mut begun, dir.path()).await;
        assert_eq!((begun.tool_call_id.as_str(), begun.title.as_deref()), ("t0", Some("Bash")));
        assert_eq!((begun.raw_input, begun.content), (Some(json!({"command": "echo hi"})), None));
        let mut ended = news("completed", "");
        complete(&mut ended, dir.path()).await;
        assert_eq!(ended.raw_output, Some(json!("Output: hi")));
        let mut cancelled = news("completed", CANCELLED);
        complete(&mut cancelled, dir.path()).await;
        assert_eq!(cancelled.status.as_deref(), Some("failed"));
    }

    #[test]
    fn a_record_is_made_ready_and_a_second_time_too() {
        let dir = tempfile::tempdir().unwrap();
        let head = json!({"sessionId": SESSION, "kind": "main"});
        let said = json!({"id": "u1", "type": "user", "content": [{"text": "do it"}]});
        let again = json!({"id": "u2", "type": "user", "content": [{"functionResponse": {"id": "x"}}]});
        let (first, second) = (call("a"), call("b"));
        let lines = [head.clone(), said.clone(), first.clone(), second.clone(), again];
        record(dir.path(), "session-2026-11-16T20-22-b1ec9160.jsonl", &lines, "{\"id\": \"cut");
        record(dir.path(), "session-2026-11-16T20-23-b1ec9160.jsonl", std::slice::from_ref(&head), "");
        let other = record(
            dir.path(),
            "session-2026-11-16T20-22-3676baa0.jsonl",
            &[json!({"sessionId": "other"})],
            "",
        );
        for _ in 0..2 {
            make_ready(dir.path(), SESSION).unwrap();
            let names: Vec<_> =
                files(dir.path()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
            assert_eq!(
                names,
                ["session-2000-01-01T00-00-b1ec9160.jsonl", "session-2026-11-16T20-22-3676baa0.jsonl"]
            );
            assert!(other.exists());
            assert_eq!(records(dir.path())[..4], [head.clone(), said.clone(), first.clone(), second.clone()]);
        }
        let used = usage(dir.path());
        assert_eq!(
            (used.input_tokens, used.output_tokens, used.cache_read_tokens),
            (10, 9, 5),
            "each message once"
        );
    }
}
