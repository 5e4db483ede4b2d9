//! What the story says of steps.

use serde_json::{Map, Value, json};
use sunaba_git::{Change, ChangeKind};
use sunaba_types::Step;

use super::Done;
use super::capture::LeftOut;

pub(super) const EDITED: &str = "agent.file_edited";
pub(super) const STEP: &str = "agent.step";
pub(super) const SKIPPED: &str = "agent.system_message";

const PREVIEW_MAX_LINES: usize = 100;
const PREVIEW_MAX_CHARS: usize = 5_000;
const FULL_MAX_CHARS: usize = 50_000;
/// Of all names of files in a step: an event has its bound, and a letter may take six bytes in it.
const LIST_MAX_BYTES: usize = 100_000;
/// Names of files in one event.
const NAMES_MAX: usize = 50;

/// One change of one file.
pub(super) fn edited(done: &Done, change: &Change, piece: Option<&str>) -> Map<String, Value> {
    let size = piece.map(|piece| piece.chars().count());
    let full = piece.filter(|_| size.is_some_and(|size| size <= FULL_MAX_CHARS));
    let preview: String = piece.unwrap_or_default().split_inclusive('\n').take(PREVIEW_MAX_LINES).collect();
    object(json!({
        "turn": done.turn,
        "tool_use_id": done.tool_use_id,
        "file_path": change.path,
        "old_path": change.old_path,
        "change_type": word(change.kind),
        "binary": change.binary,
        "lines_added": change.added,
        "lines_removed": change.removed,
        "diff_preview": preview.chars().take(PREVIEW_MAX_CHARS).collect::<String>(),
        "full_diff": full,
        "full_diff_available": full.is_some(),
        "full_diff_size": size,
    }))
}

/// The files after a call: what they are called, and in short what became of them.
pub(super) fn step(done: &Done, step: &Step, files: &[Change], most: usize) -> Map<String, Value> {
    let mut room = LIST_MAX_BYTES;
    let fits = |change: &&Change| {
        let taken = change.path.len() + change.old_path.as_ref().map_or(0, String::len);
        let left = room.checked_sub(taken);
        room = left.unwrap_or(0);
        left.is_some()
    };
    let named = files.iter().take(most).take_while(fits).map(|change| {
        json!({
            "path": change.path,
            "old_path": change.old_path,
            "change_type": word(change.kind),
            "binary": change.binary,
            "lines_added": change.added,
            "lines_removed": change.removed,
        })
    });
    object(json!({
        "turn": done.turn,
        "tool_use_id": done.tool_use_id,
        "tree": step.tree,
        "parent": step.parent,
        "files_changed": files.len(),
        "files": named.collect::<Vec<_>>(),
    }))
}

fn word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Created => "created",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
        ChangeKind::Renamed => "renamed",
    }
}

/// Files that are not in the steps as they lie on the disk; each is told once.
pub(super) fn left_out(turn: u32, files: &[(String, LeftOut)]) -> Map<String, Value> {
    let named = files.iter().take(NAMES_MAX);
    let named: Vec<Value> = named.map(|(path, why)| json!({"path": path, "why": why.words()})).collect();
    let words = format!("{} left out of the steps", files.len());
    let metadata = json!({
        "subtype": "step_skipped", "reason": "files_left_out", "message": words, "files": named,
    });
    object(json!({"turn": turn, "metadata": metadata}))
}

/// A step that was not taken.
pub(super) fn skipped(turn: u32, reason: &str, words: &str) -> Map<String, Value> {
    let metadata = json!({"subtype": "step_skipped", "reason": reason, "message": words});
    object(json!({"turn": turn, "metadata": metadata}))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str) -> Change {
        let kind = ChangeKind::Created;
        Change {
            path: path.into(),
            old_path: None,
            kind,
            binary: false,
            added: 6_000,
            removed: 0,
            piece: None,
        }
    }

    #[test]
    fn no_step_is_larger_than_the_log_takes() {
        let files: Vec<Change> = (0..200).map(|_| change(&"\u{1}".repeat(4_000))).collect();
        let whole = Step { tree: "t".into(), parent: None, event_id: None };
        let told = step(&Done::default(), &whole, &files, 200);
        assert_eq!(told["files_changed"], 200);
        assert!(Value::Object(told).to_string().len() < sunaba_types::limits::EVENT_PAYLOAD_MAX_BYTES);
    }

    #[test]
    fn a_large_change_has_a_preview_only() {
        let done = Done { turn: 3, tool_use_id: Some("t1".into()), ..Done::default() };
        let piece = format!("diff --git a/big b/big\n{}", "+0123456789\n".repeat(6_000));
        let told = edited(&done, &change("big"), Some(&piece));
        assert_eq!((&told["change_type"], &told["lines_added"]), (&json!("created"), &json!(6_000)));
        assert_eq!((&told["full_diff"], &told["full_diff_available"]), (&Value::Null, &json!(false)));
        assert_eq!(told["full_diff_size"], piece.len());
        let preview = told["diff_preview"].as_str().unwrap();
        assert!(preview.lines().count() == 100 && preview.chars().count() <= 5_000);
        let small = edited(&done, &change("small"), Some("diff"));
        assert_eq!((&small["full_diff"], &small["full_diff_available"]), (&json!("diff"), &json!(true)));
        let long_line = edited(&done, &change("wide"), Some(&"ä".repeat(60_000)));
        assert_eq!(long_line["diff_preview"].as_str().unwrap().chars().count(), 5_000);
    }
}
