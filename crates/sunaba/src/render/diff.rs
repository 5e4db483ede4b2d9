//! Unified diffs: coloured for reading, counted for the summary.

use super::clean::clean_line;
use crate::output::Colour;

/// How much changed in one file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DiffStat {
    /// Which file.
    pub(crate) path: String,
    /// Lines added.
    pub(crate) added: usize,
    /// Lines removed.
    pub(crate) removed: usize,
}

/// A diff for the terminal: one prefix for each line, colour by what the line does.
pub(crate) fn coloured_diff(diff: &str, prefix: &str, colour: Colour) -> String {
    diff.lines().map(|line| format!("{prefix}{}\n", coloured_line(line, colour))).collect()
}

fn coloured_line(line: &str, colour: Colour) -> String {
    let shown = clean_line(line);
    if is_header(line) {
        return colour.bold(&shown);
    }
    match line.as_bytes().first() {
        Some(b'+') => colour.green(&shown),
        Some(b'-') => colour.red(&shown),
        Some(b'@') => colour.cyan(&shown),
        _ => shown,
    }
}

fn is_header(line: &str) -> bool {
    ["diff --git ", "index ", "--- ", "+++ ", "new file", "deleted file", "similarity ", "rename "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Counts what a whole diff of git changes, file by file.
pub(crate) fn diffstat(diff: &str) -> Vec<DiffStat> {
    let mut stats: Vec<DiffStat> = Vec::new();
    let mut in_hunk = false;
    for line in diff.lines() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            in_hunk = false;
            stats.push(DiffStat { path: new_name(names), added: 0, removed: 0 });
        } else if line.starts_with("@@") {
            in_hunk = true;
        } else if let (true, Some(stat)) = (in_hunk, stats.last_mut()) {
            match line.as_bytes().first() {
                Some(b'+') => stat.added += 1,
                Some(b'-') => stat.removed += 1,
                _ => {}
            }
        }
    }
    stats
}

/// The second of the two names in `a/x b/x`.
fn new_name(names: &str) -> String {
    let name = names.rfind(" b/").map_or(names, |at| &names[at + 3..]);
    clean_line(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n a\n-b\n+c\n+--d\n\
                        diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+\x1b[31mhi\n";

    #[test]
    fn headers_are_not_counted() {
        assert_eq!(
            diffstat(DIFF),
            [
                DiffStat { path: "x".into(), added: 2, removed: 1 },
                DiffStat { path: "y".into(), added: 1, removed: 0 },
            ]
        );
    }

    #[test]
    fn lines_are_coloured_and_harmless() {
        let shown = coloured_diff(DIFF, "  ", Colour::On);
        assert!(shown.contains("  \x1b[31m-b\x1b[0m\n"));
        assert!(shown.contains("  \x1b[32m+␛[31mhi\x1b[0m\n"));
        assert!(shown.contains("  \x1b[1m--- a/x\x1b[0m\n"));
    }
}
