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
            stats.push(DiffStat { path: clean_line(&name_of_both(names)), added: 0, removed: 0 });
        } else if line.starts_with("@@") {
            in_hunk = true;
        } else if let Some(stat) = stats.last_mut() {
            match line.as_bytes().first() {
                Some(b'+') if in_hunk => stat.added += 1,
                Some(b'-') if in_hunk => stat.removed += 1,
                _ => {}
            }
            if let (false, Some(name)) = (in_hunk, named_by(line)) {
                stat.path = clean_line(&name);
            }
        }
    }
    stats
}

/// The file that a line between `diff --git` and the first hunk names; a later line knows it better.
fn named_by(line: &str) -> Option<String> {
    if let Some(name) = line.strip_prefix("rename to ") {
        return Some(unquoted(name));
    }
    let name = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ "))?;
    // Git ends a name that holds spaces with a tab here.
    let name = unquoted(name.strip_suffix('\t').unwrap_or(name));
    name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).map(str::to_owned)
}

/// The name in `a/x b/x`, where both are the same.
fn name_of_both(names: &str) -> String {
    let second = names.get(names.len() / 2 + 1..).unwrap_or(names);
    let name = unquoted(second);
    name.strip_prefix("b/").map_or_else(|| names.to_owned(), str::to_owned)
}

/// A name as it is, where git wrote it in quotes with escapes.
fn unquoted(name: &str) -> String {
    let Some(inner) = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return name.to_owned();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'\\' { escaped_byte(&mut rest) } else { byte });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn escaped_byte(rest: &mut std::str::Bytes<'_>) -> u8 {
    match rest.next().unwrap_or(b'\\') {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'a' => 7,
        b'b' => 8,
        b'v' => 11,
        b'f' => 12,
        // Three octal digits.
        high @ b'0'..=b'3' => {
            let mut digit = || rest.next().map_or(0, |digit| digit.wrapping_sub(b'0') & 7);
            ((high - b'0') << 6) | (digit() << 3) | digit()
        }
        plain => plain,
    }
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
    fn names_are_plain() {
        let diff = "diff --git \"a/f\\303\\274r.txt\" \"b/f\\303\\274r.txt\"\nnew file mode 100644\nindex 0..1\n\
                    diff --git a/my b/file b/my b/file\n--- a/my b/file\t\n+++ b/my b/file\t\n@@ -1 +1 @@\n-a\n+b\n\
                    diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
                    diff --git a/old b/new name\nsimilarity index 100%\nrename from old\nrename to new name\n\
                    diff --git a/pic b/pic\nBinary files a/pic and b/pic differ\n";
        let names: Vec<String> = diffstat(diff).into_iter().map(|stat| stat.path).collect();
        assert_eq!(names, ["für.txt", "my b/file", "gone", "new name", "pic"]);
    }

    #[test]
    fn lines_are_coloured_and_harmless() {
        let shown = coloured_diff(DIFF, "  ", Colour::On);
        assert!(shown.contains("  \x1b[31m-b\x1b[0m\n"));
        assert!(shown.contains("  \x1b[32m+␛[31mhi\x1b[0m\n"));
        assert!(shown.contains("  \x1b[1m--- a/x\x1b[0m\n"));
    }
}
