//! What a tool did to a file, as a unified diff and in numbers.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use crate::{AgentEvent, ChangeType};

const PREVIEW_MAX_LINES: usize = 100;
const PREVIEW_MAX_CHARS: usize = 5_000;
const FULL_MAX_CHARS: usize = 50_000;
/// Past this the diff is right but no longer the smallest.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone)]
pub(crate) struct FileEdit {
    file_path: String,
    change_type: ChangeType,
    lines_added: usize,
    lines_removed: usize,
    diff: String,
}

impl FileEdit {
    /// The change; none when there is none. `before` is absent when the file was.
    pub(crate) fn between(file_path: String, before: Option<&str>, after: &str) -> Option<Self> {
        if before == Some(after) {
            return None;
        }
        let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(before.unwrap_or_default(), after);
        let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
        let old_name = before.map_or_else(|| "/dev/null".to_owned(), |_| format!("a/{file_path}"));
        let unified =
            diff.unified_diff().context_radius(3).header(&old_name, &format!("b/{file_path}")).to_string();
        Some(Self {
            lines_added: count(ChangeTag::Insert),
            lines_removed: count(ChangeTag::Delete),
            change_type: if before.is_some() { ChangeType::Modified } else { ChangeType::Created },
            diff: unified,
            file_path,
        })
    }

    pub(crate) fn event(&self, turn: u32, tool_use_id: &str) -> AgentEvent {
        let full_diff_size = self.diff.chars().count();
        let fits = full_diff_size <= FULL_MAX_CHARS;
        let preview: String = self.diff.split_inclusive('\n').take(PREVIEW_MAX_LINES).collect();
        AgentEvent::FileEdited {
            turn,
            tool_use_id: tool_use_id.to_owned(),
            file_path: self.file_path.clone(),
            change_type: self.change_type,
            lines_added: self.lines_added,
            lines_removed: self.lines_removed,
            diff_preview: preview.chars().take(PREVIEW_MAX_CHARS).collect(),
            full_diff: fits.then(|| self.diff.clone()),
            full_diff_available: fits,
            full_diff_size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_counted_and_shown() {
        let edit = FileEdit::between("a.txt".into(), Some("one\ntwo\n"), "one\n2\nthree\n").unwrap();
        assert_eq!((edit.lines_added, edit.lines_removed), (2, 1));
        assert!(edit.diff.starts_with("--- a/a.txt\n+++ b/a.txt\n@@ "), "{}", edit.diff);
        assert!(FileEdit::between("a.txt".into(), Some("same"), "same").is_none());
    }

    #[test]
    fn a_large_new_file_has_a_preview_only() {
        let content = "0123456789\n".repeat(6_000);
        let edit = FileEdit::between("big".into(), None, &content).unwrap();
        let payload = edit.event(1, "t").payload();
        assert_eq!(payload["change_type"], "created");
        assert_eq!(payload["lines_added"], 6_000);
        assert_eq!(payload["full_diff_available"], false);
        assert!(payload["full_diff"].is_null());
        let preview = payload["diff_preview"].as_str().unwrap();
        assert!(preview.starts_with("--- /dev/null\n"));
        assert!(preview.lines().count() == 100 && preview.chars().count() <= 5_000);
    }
}
