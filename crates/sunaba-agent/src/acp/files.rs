//! What a tool call does to files, of which agents tell more or less: the paths, a piece of text and what takes its
//! place, whole files, or nothing before it is done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::wire::ToolNews;
use crate::tools::{Before, FileEdit, shown};

/// Of one call.
const FILES_MAX: usize = 200;

#[derive(Debug)]
struct Replaced {
    path: PathBuf,
    old: Option<String>,
    new: String,
}

#[derive(Debug, Default)]
pub(super) struct Files {
    before: BTreeMap<PathBuf, Option<Before>>,
    replaced: Vec<Replaced>,
}

impl Files {
    /// Looks at the files that a call is said to be about, once each: the earlier, the surer that it is before.
    pub(super) async fn see(&mut self, cwd: &Path, kind: &str, news: &ToolNews) {
        if !matches!(kind, "edit" | "move" | "delete") {
            return;
        }
        let replaced: Vec<_> =
            news.content.iter().flatten().filter_map(|part| Replaced::read(cwd, part)).collect();
        let located = news.locations.iter().flatten().map(|location| cwd.join(&location.path));
        let paths: Vec<_> = located.chain(replaced.iter().map(|replaced| replaced.path.clone())).collect();
        for path in paths {
            if self.before.len() < FILES_MAX && !self.before.contains_key(&path) {
                let before = Before::look(&path).await;
                self.before.insert(path, before);
            }
        }
        if !replaced.is_empty() {
            self.replaced = replaced;
        }
    }

    /// Whether all of them are known and surely lie in `cwd`.
    pub(super) fn stay_inside(&self, cwd: &Path) -> bool {
        let is_inside = |path: &PathBuf| {
            // The file itself may not be there yet; what it will lie in is.
            let Some(real) = path.parent().and_then(|parent| parent.canonicalize().ok()) else {
                return false;
            };
            cwd.canonicalize().is_ok_and(|cwd| real.starts_with(cwd)) && !path.is_symlink()
        };
        !self.before.is_empty() && self.before.keys().all(is_inside)
    }

    /// What has changed since.
    pub(super) async fn changes(&self, cwd: &Path) -> Vec<FileEdit> {
        let mut edits = Vec::new();
        for (path, before) in &self.before {
            let (Some(before), Some(Before::Text(after))) = (before, Before::look(path).await) else {
                continue;
            };
            let undone = match before {
                Before::Text(text) if *text == after => self.undone(path, &after),
                earlier => earlier.clone(),
            };
            edits.extend(FileEdit::between(shown(cwd, path), undone.text(), &after));
        }
        edits
    }

    /// A file that had already changed when it was first looked at: what it must have held.
    fn undone(&self, path: &Path, after: &str) -> Before {
        let mut text = after.to_owned();
        for replaced in self.replaced.iter().rev().filter(|replaced| replaced.path == path) {
            text = match &replaced.old {
                None if replaced.new == text => return Before::Absent,
                Some(old) if replaced.new == text => old.clone(),
                Some(old) if !replaced.new.is_empty() => text.replacen(&replaced.new, old, 1),
                None | Some(_) => text,
            };
        }
        Before::Text(text)
    }
}

impl Replaced {
    fn read(cwd: &Path, part: &Value) -> Option<Self> {
        let word = |name: &str| part.get(name).and_then(Value::as_str);
        (word("type") == Some("diff")).then_some(())?;
        Some(Self {
            path: cwd.join(word("path")?),
            old: word("oldText").map(str::to_owned),
            new: word("newText")?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn changes(now: &str, parts: Value) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), now).unwrap();
        let content = Some(parts.as_array().unwrap().clone());
        let mut files = Files::default();
        files.see(dir.path(), "edit", &ToolNews { content, ..ToolNews::default() }).await;
        let edits = files.changes(dir.path()).await;
        edits.iter().map(|edit| edit.event(1, "t").payload()["full_diff"].to_string()).collect()
    }

    #[tokio::test]
    async fn a_change_that_was_quicker_than_we_is_told_all_the_same() {
        let part =
            |old: Value, new: &str| json!({"type": "diff", "path": "a.txt", "oldText": old, "newText": new});
        let whole = changes("one\n2\n", json!([part(json!("one\ntwo\n"), "one\n2\n")])).await;
        assert!(whole[0].contains(r"-two\n+2\n"), "{whole:?}");
        let piece = changes("one\n2\nthree\n", json!([part(json!("two"), "2")])).await;
        assert!(piece[0].contains(r" one\n-two\n+2\n three\n"), "{piece:?}");
        let made = changes("new\n", json!([part(Value::Null, "new\n")])).await;
        assert!(made[0].contains("/dev/null"), "{made:?}");
        assert_eq!(changes("x", json!([])).await, Vec::<String>::new());
    }
}
