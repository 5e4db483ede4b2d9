//! What it tells of a tool call, completed from what it writes down.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::translate;
use super::super::wire::ToolNews;
use super::Record;

/// Where its record of a call's result is waited for at most: it is written right after the call is told to be over.
const RESULT_PATIENCE: Duration = Duration::from_secs(1);
const RESULT_POLL: Duration = Duration::from_millis(10);
/// What it says of a command that it ended itself.
const CANCELLED: &str = "Command cancelled by user.";
/// Its names of tools, and the contract's.
const NAMES: [(&str, &str); 6] = [
    ("run_shell_command", "Bash"),
    ("write_file", "Write"),
    ("replace", "Edit"),
    ("read_file", "Read"),
    ("grep_search", "Grep"),
    ("glob", "Glob"),
];

/// Adds what is missing in the news of a tool call.
pub(in crate::acp) async fn complete(news: &mut ToolNews, record: &Record) {
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
    if is_over && translate::content(news).as_deref() == Some(CANCELLED) {
        news.status = Some("failed".to_owned());
    } else if is_over {
        if let Some(words) = result(record, &theirs).await {
            (news.raw_output, news.content) = (Some(Value::from(words)), None);
        }
    } else if news.status.as_deref() != Some("failed") {
        // Where it is to run, and what for: not what it wrote.
        news.content = None;
    }
}

/// What a call gave, as the record has it.
async fn result(record: &Record, id: &str) -> Option<String> {
    let until = Instant::now() + RESULT_PATIENCE;
    loop {
        let found = record.take_result(id).await;
        if found.is_some() || Instant::now() >= until {
            return found;
        }
        tokio::time::sleep(RESULT_POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::written;
    use super::*;

    #[tokio::test]
    async fn a_command_is_told_with_what_it_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let record = Record::new(dir.path());
        let call = written::call("<untrusted_context>\nOutput: hi\n</untrusted_context>");
        written::record(dir.path(), "session-a.jsonl", &[call], "");
        let news = |status: &str, text: &str| -> ToolNews {
            let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
            let fields = json!({"toolCallId": "run_shell_command__t0", "title": "echo hi", "kind": "execute",
                "status": status, "content": content});
            serde_json::from_value(fields).unwrap()
        };
        let mut begun = news("in_progress", "[current working directory /w]");
        complete(&mut begun, &record).await;
        assert_eq!((begun.tool_call_id.as_str(), begun.title.as_deref()), ("t0", Some("Bash")));
        assert_eq!((begun.raw_input, begun.content), (Some(json!({"command": "echo hi"})), None));
        let mut ended = news("completed", "");
        complete(&mut ended, &record).await;
        assert_eq!(ended.raw_output, Some(json!("Output: hi")));
        let mut cancelled = news("completed", CANCELLED);
        complete(&mut cancelled, &record).await;
        assert_eq!(cancelled.status.as_deref(), Some("failed"));
    }
}
