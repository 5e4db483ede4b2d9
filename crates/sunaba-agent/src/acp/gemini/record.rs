//! What it writes down of a conversation: files of lines that only grow, read on from where the last look ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{Read as _, Result, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use walkdir::WalkDir;

use crate::Usage;

/// The records of one run. Reading them is left to threads that may wait for a disk.
#[derive(Debug, Clone)]
pub(in crate::acp) struct Record(Arc<Mutex<Seen>>);

impl Record {
    /// The records below the agent's own directory. What is there already is the past.
    pub(in crate::acp) fn new(dir: &Path) -> Self {
        let mut seen = Seen::new(dir);
        seen.read_on();
        let past = std::mem::take(&mut seen.results);
        seen.taken.extend(past.into_iter().map(|(call, found)| (found.message, call)));
        Self(Arc::new(Mutex::new(seen)))
    }

    /// What a command gave, once it is written down; told once.
    pub(super) async fn take_result(&self, id: &str) -> Option<String> {
        let (seen, id) = (Arc::clone(&self.0), id.to_owned());
        let looked = tokio::task::spawn_blocking(move || {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.take(&id).or_else(|| {
                seen.read_on();
                seen.take(&id)
            })
        });
        looked.await.ok().flatten()
    }
}

/// What was read so far.
#[derive(Debug)]
struct Seen {
    dir: PathBuf,
    /// How much of each file was read.
    read: BTreeMap<PathBuf, u64>,
    /// What commands gave that was not asked for yet, by the call's name.
    results: HashMap<String, Found>,
    /// Message and call of those that were: a message is written down again whenever more is known of it.
    taken: HashSet<(String, String)>,
}

/// What a command gave, and in which message that stands.
#[derive(Debug)]
struct Found {
    message: String,
    words: String,
}

impl Seen {
    fn new(dir: &Path) -> Self {
        let (read, results, taken) = (BTreeMap::new(), HashMap::new(), HashSet::new());
        Self { dir: dir.to_owned(), read, results, taken }
    }

    fn take(&mut self, id: &str) -> Option<String> {
        let found = self.results.remove(id)?;
        self.taken.insert((found.message, id.to_owned()));
        Some(found.words)
    }

    /// Reads what was added to the files, as far as lines are whole.
    fn read_on(&mut self) {
        let files = of_conversations(&self.dir);
        self.read.retain(|path, _| files.contains(path));
        for path in files {
            let from = self.read.get(&path).copied().unwrap_or(0);
            // One that cannot be read now may be readable at the next look.
            let Ok((lines, end)) = added(&path, from) else { continue };
            self.read.insert(path, end);
            for line in lines.split(|byte| *byte == b'\n') {
                if let Ok(message) = serde_json::from_slice(line) {
                    self.learn(&message);
                }
            }
        }
    }

    fn learn(&mut self, message: &Value) {
        let name = message["id"].as_str().unwrap_or_default();
        for call in message["toolCalls"].as_array().into_iter().flatten() {
            let Some(id) = call["id"].as_str().filter(|id| id.starts_with(COMMANDS)) else { continue };
            let Some(words) = result_of(call) else { continue };
            if !self.taken.contains(&(name.to_owned(), id.to_owned())) {
                self.results.insert(id.to_owned(), Found { message: name.to_owned(), words });
            }
        }
    }
}

/// How the names of calls begin that run a command; of the others nobody asks what they gave.
const COMMANDS: &str = "run_shell_command__";

fn result_of(call: &Value) -> Option<String> {
    let response = call.pointer("/result/0/functionResponse/response")?;
    let words = response["output"].as_str().or_else(|| response["error"].as_str())?;
    // It is wrapped as something that the model must not obey.
    let inside = words.strip_prefix("<untrusted_context>\n").unwrap_or(words);
    Some(inside.strip_suffix("\n</untrusted_context>").unwrap_or(inside).to_owned())
}

/// The whole lines of a file from there on, and where they end. One that became shorter is another file by now.
fn added(path: &Path, from: u64) -> Result<(Vec<u8>, u64)> {
    let mut file = File::open(path)?;
    let from = if file.metadata()?.len() < from { 0 } else { from };
    file.seek(SeekFrom::Start(from))?;
    let mut lines = Vec::new();
    file.read_to_end(&mut lines)?;
    lines.truncate(lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    let end = from + lines.len() as u64;
    Ok((lines, end))
}

/// Every file that it wrote, of conversations and of helpers, in an order that does not change.
fn all(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let found =
        WalkDir::new(dir.join(".gemini/tmp")).sort_by_file_name().into_iter().filter_map(|entry| entry.ok());
    found.map(walkdir::DirEntry::into_path).filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
}

/// The files of conversations. Those of helpers lie in a directory of their own below.
pub(super) fn of_conversations(dir: &Path) -> Vec<PathBuf> {
    let is_in_chats = |path: &PathBuf| path.parent().is_some_and(|place| place.ends_with(CHATS));
    all(dir).filter(is_in_chats).collect()
}

/// Where conversations are kept.
const CHATS: &str = "chats";

/// What was used, with what helpers used: a message is written down again when more is known of it.
pub(in crate::acp) fn usage(dir: &Path) -> Usage {
    let mut by_message = BTreeMap::new();
    let is_below_chats = |path: &PathBuf| path.iter().any(|part| part == CHATS);
    for path in all(dir).filter(is_below_chats) {
        let Ok((lines, _)) = added(&path, 0) else { continue };
        for line in lines.split(|byte| *byte == b'\n') {
            let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
            if let (Some(id), Some(tokens)) = (message["id"].as_str(), message["tokens"].as_object()) {
                by_message.insert(id.to_owned(), tokens.clone());
            }
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

/// Records as the CLI writes them.
#[cfg(test)]
pub(super) mod written {
    use serde_json::json;

    use super::*;

    pub(in super::super) fn record(dir: &Path, name: &str, lines: &[Value], tail: &str) -> PathBuf {
        let path = dir.join(".gemini/tmp/work/chats").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, text + tail).unwrap();
        path
    }

    pub(in super::super) fn call(output: &str) -> Value {
        let response =
            json!({"functionResponse": {"id": "run_shell_command__t0", "response": {"output": output}}});
        json!({"id": "m1", "type": "gemini", "toolCalls": [{"id": "run_shell_command__t0", "result": [response]}],
            "tokens": {"input": 15, "output": 7, "cached": 5, "thoughts": 2}})
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    const CALL: &str = "run_shell_command__t0";

    fn append(path: &Path, text: &str) {
        std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn only_what_was_added_is_read_and_only_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = written::record(dir.path(), "session-a.jsonl", &[json!({"sessionId": "s"})], "");
        let mut seen = Seen::new(dir.path());
        seen.read_on();
        let first = seen.read[&path];
        assert_eq!(first, path.metadata().unwrap().len());
        let line = written::call("done").to_string();
        let (begin, rest) = line.split_at(40);
        append(&path, begin);
        seen.read_on();
        assert_eq!((seen.read[&path], seen.take(CALL)), (first, None), "a line that is not whole is left");
        // Were the beginning read again, this would be a line.
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().write_all(b"x").unwrap();
        append(&path, &format!("{rest}\n"));
        seen.read_on();
        assert_eq!(seen.take(CALL).as_deref(), Some("done"));
        append(&path, &format!("{line}\n"));
        seen.read_on();
        assert_eq!(seen.take(CALL), None, "what was told is not told again");
    }

    #[test]
    fn a_file_that_is_another_is_read_from_its_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let long = json!({"id": "u1", "content": "x".repeat(1000)});
        let path = written::record(dir.path(), "session-a.jsonl", &[long], "");
        let mut seen = Seen::new(dir.path());
        seen.read_on();
        written::record(dir.path(), "session-a.jsonl", &[written::call("again")], "");
        seen.read_on();
        assert_eq!(seen.take(CALL).as_deref(), Some("again"));
        std::fs::remove_file(&path).unwrap();
        seen.read_on();
        assert!(seen.read.is_empty());
    }

    #[tokio::test]
    async fn what_an_earlier_run_did_is_not_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = written::record(dir.path(), "session-a.jsonl", &[written::call("past")], "");
        let record = Record::new(dir.path());
        std::fs::rename(&path, path.with_file_name("session-b.jsonl")).unwrap();
        assert_eq!(record.take_result(CALL).await, None, "under another name either");
        let mut now = written::call("now");
        now["id"] = json!("m2");
        append(&path.with_file_name("session-b.jsonl"), &format!("{now}\n"));
        assert_eq!(record.take_result(CALL).await.as_deref(), Some("now"));
    }

    #[test]
    fn helpers_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        written::record(dir.path(), "session-a.jsonl", &[written::call("a")], "");
        let tokens = json!({"input": 100, "output": 1, "cached": 0, "thoughts": 0});
        written::record(dir.path(), "s/helper.jsonl", &[json!({"id": "h1", "tokens": tokens})], "{\"id\"");
        let used = usage(dir.path());
        assert_eq!((used.input_tokens, used.output_tokens), (110, 10));
        assert_eq!(of_conversations(dir.path()).len(), 1);
    }
}
