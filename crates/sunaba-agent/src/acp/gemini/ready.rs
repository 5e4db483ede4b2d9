//! Its record of a conversation, made fit to be taken up.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::record::of_conversations;

/// Makes its record fit to be taken up: under a name that is not of this minute, with only whole lines, and with the
/// result of each call once, because it writes results down twice and would send both.
pub(in crate::acp) fn make_ready(dir: &Path, session: &str) -> Result<()> {
    let of_session = |path: &PathBuf| {
        std::fs::read_to_string(path)
            .is_ok_and(|text| text.lines().next().is_some_and(|head| head.contains(session)))
    };
    let mut found: Vec<_> = of_conversations(dir).into_iter().filter(of_session).collect();
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
    use serde_json::json;

    use super::super::record::{usage, written};
    use super::*;

    const SESSION: &str = "b1ec9160-3aa3-4ac1-817c-162a9c0628c0";

    #[test]
    fn a_record_is_made_ready_and_a_second_time_too() {
        let dir = tempfile::tempdir().unwrap();
        let head = json!({"sessionId": SESSION, "kind": "main"});
        let said = json!({"id": "u1", "type": "user", "content": [{"text": "do it"}]});
        let again = json!({"id": "u2", "type": "user", "content": [{"functionResponse": {"id": "x"}}]});
        let (first, second) = (written::call("a"), written::call("b"));
        let lines = [head.clone(), said.clone(), first.clone(), second.clone(), again];
        let record = |name: &str, lines: &[Value], tail: &str| written::record(dir.path(), name, lines, tail);
        record("session-2026-11-16T20-22-b1ec9160.jsonl", &lines, "{\"id\": \"cut");
        record("session-2026-11-16T20-23-b1ec9160.jsonl", std::slice::from_ref(&head), "");
        let other = [json!({"sessionId": "other"})];
        let other = record("session-2026-11-16T20-22-3676baa0.jsonl", &other, "");
        for _ in 0..2 {
            make_ready(dir.path(), SESSION).unwrap();
            let found = of_conversations(dir.path());
            let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_owned()).collect();
            let ready = "session-2000-01-01T00-00-b1ec9160.jsonl";
            assert_eq!(names, [ready, "session-2026-11-16T20-22-3676baa0.jsonl"]);
            assert!(other.exists());
            let text = std::fs::read_to_string(&found[0]).unwrap();
            let kept: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(kept, [head.clone(), said.clone(), first.clone(), second.clone()]);
        }
        let used = usage(dir.path());
        let counted = (used.input_tokens, used.output_tokens, used.cache_read_tokens);
        assert_eq!(counted, (10, 9, 5), "each message once");
    }
}
