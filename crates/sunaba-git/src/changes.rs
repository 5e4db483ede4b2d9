//! What differs between two trees, file by file and as a patch, from one call of git.
//!
//! Git is asked for all three forms at once: `--raw` says what happened to each file, `--numstat` how many lines,
//! and the patch is cut into one piece a file. A patch that is longer than its bound is cut off at the end; the list
//! of files stays whole.

use std::ops::Range;

use crate::command::Git;
use crate::{Error, Result};

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there before.
    Created,
    /// It was there with other content, another mode or another type.
    Modified,
    /// It is no longer there.
    Deleted,
    /// It was there under another name.
    Renamed,
}

/// One file that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its path from the top; what of it is no text is replaced by a mark.
    pub path: String,
    /// Its path before, when it was renamed.
    pub old_path: Option<String>,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Whether it is no text, so that lines cannot be counted.
    pub binary: bool,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// Where its piece of the patch is; none when the patch was cut off before its end.
    pub piece: Option<Range<usize>>,
}

/// All that differs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The files, in git's order.
    pub files: Vec<Change>,
    /// The patch; what of it is no text is replaced by a mark.
    pub patch: String,
    /// Whether the patch was cut off at its end.
    pub truncated: bool,
}

impl Changes {
    /// The patch of one file, when all of it is there.
    pub fn piece(&self, change: &Change) -> Option<&str> {
        self.patch.get(change.piece.clone()?)
    }
}

/// The arguments that [`read`] understands the answer to.
const FORMS: [&str; 9] = [
    "-r",
    "-z",
    "--raw",
    "--numstat",
    "--patch",
    "--find-renames",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
];
/// Renames are not looked for among more files than this: it costs their square.
const RENAMES_MAX: &str = "-l400";
/// Of the list of files; the patch has its own bound.
const LIST_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// Asks a `diff-tree` call for what differs between two trees or commits, below some paths or everywhere.
pub(crate) async fn between(
    call: Git,
    [from, to]: [&str; 2],
    paths: &[&str],
    patch_max_bytes: u64,
) -> Result<Changes> {
    let call = call.args(FORMS).args([RENAMES_MAX, from, to, "--"]).args(paths);
    // What paths say about themselves is taken by the letter.
    let call = call.env("GIT_LITERAL_PATHSPECS", "1").max_output(LIST_MAX_BYTES + patch_max_bytes);
    let failed = |stderr: &str| Error::Failed {
        operation: "diff-tree".to_owned(),
        stderr: crate::command::presentable(stderr),
    };
    let output = call.output().await?;
    if !output.status.success() && !output.truncated {
        return Err(failed(&output.stderr));
    }
    let bound = usize::try_from(patch_max_bytes).unwrap_or(usize::MAX);
    read(&output.stdout, bound, output.truncated).ok_or_else(|| failed("said something that makes no sense"))
}

/// Reads git's answer; none when it is not one.
fn read(answer: &[u8], patch_max_bytes: usize, cut: bool) -> Option<Changes> {
    let mut words = Words(answer);
    let mut found: Vec<(Change, usize)> = Vec::new();
    while words.0.first() == Some(&b':') {
        found.push(read_raw(&mut words)?);
    }
    for (change, _) in &mut found {
        read_numbers(&mut words, change)?;
    }
    // An empty word stands between the lists and the patch.
    let patch = if words.0.is_empty() { words.0 } else { words.0.strip_prefix(b"\0")? };
    let kept = &patch[..patch.len().min(patch_max_bytes)];
    let truncated = cut || kept.len() < patch.len();
    let (patch, starts) = text_and_pieces(kept);
    let mut next = 0;
    let files = found.into_iter().map(|(mut change, pieces)| {
        let whole_until = next + pieces;
        let end = starts.get(whole_until).copied();
        let end = end.or((whole_until == starts.len() && !truncated).then_some(patch.len()));
        change.piece = starts.get(next).zip(end).map(|(start, end)| *start..end);
        next = whole_until;
        change
    });
    Some(Changes { files: files.collect(), patch, truncated })
}

/// What is left of an answer, read word by word, each ended by a NUL.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let word = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(word)
    }

    fn path(&mut self) -> Option<String> {
        self.next().map(|path| String::from_utf8_lossy(path).into_owned())
    }
}

/// `:<mode> <mode> <id> <id> <letter><score>`, then the path or both. Also gives how many pieces the patch has for it.
fn read_raw(words: &mut Words<'_>) -> Option<(Change, usize)> {
    let facts = words.next()?;
    let letter = facts.rsplit(|byte| *byte == b' ').next()?.first()?;
    let first = words.path()?;
    let (kind, pieces) = match letter {
        b'A' => (ChangeKind::Created, 1),
        b'D' => (ChangeKind::Deleted, 1),
        b'R' => (ChangeKind::Renamed, 1),
        // A file that became a link, say, is told as gone and as new.
        b'T' => (ChangeKind::Modified, 2),
        _ => (ChangeKind::Modified, 1),
    };
    let (path, old_path) = match kind {
        ChangeKind::Renamed => (words.path()?, Some(first)),
        _ => (first, None),
    };
    let change = Change { path, old_path, kind, binary: false, added: 0, removed: 0, piece: None };
    Some((change, pieces))
}

/// `<added>\t<removed>\t<path>`, or without a path and then both.
fn read_numbers(words: &mut Words<'_>, change: &mut Change) -> Option<()> {
    let mut parts = words.next()?.splitn(3, |byte| *byte == b'\t');
    let mut number = || std::str::from_utf8(parts.next()?).ok().map(str::parse::<u64>);
    let (added, removed) = (number()?, number()?);
    if parts.next()?.is_empty() {
        words.next()?;
        words.next()?;
    }
    change.binary = added.is_err();
    change.added = added.unwrap_or(0);
    change.removed = removed.unwrap_or(0);
    Some(())
}

/// The patch as text, and where in it each file begins. A line of content begins with another letter.
fn text_and_pieces(patch: &[u8]) -> (String, Vec<usize>) {
    let (mut text, mut starts) = (String::with_capacity(patch.len()), Vec::new());
    for line in patch.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"diff --git ") {
            starts.push(text.len());
        }
        text.push_str(&String::from_utf8_lossy(line));
    }
    (text, starts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_differs() {
        assert_eq!(read(b"", 10, false), Some(Changes::default()));
    }

    #[test]
    fn a_patch_that_is_cut_keeps_the_list_and_the_whole_pieces() {
        let answer =
            b":100644 100644 1 2 M\0a\0:100644 000000 1 0 D\0b\x001\t1\ta\x000\t2\tb\0\0diff --git a/a b/a\n\
            -x\n+y\ndiff --git a/b b/b\n-one\n-two\n";
        let whole = read(answer, 1000, false).unwrap();
        assert!(!whole.truncated);
        assert_eq!(whole.piece(&whole.files[0]), Some("diff --git a/a b/a\n-x\n+y\n"));
        assert_eq!(whole.piece(&whole.files[1]), Some("diff --git a/b b/b\n-one\n-two\n"));
        let cut = read(answer, 40, false).unwrap();
        assert!(cut.truncated && cut.files.len() == 2);
        assert_eq!(cut.piece(&cut.files[0]), Some("diff --git a/a b/a\n-x\n+y\n"));
        assert_eq!((cut.piece(&cut.files[1]), cut.files[1].removed), (None, 2));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_fail(answer in proptest::collection::vec(any::<u8>(), 0..300), bound in 0..400_usize) {
            let starts = [b":100644 100644 1 2 R100\0a\0b\0".as_slice(), b""];
            for start in starts {
                let _ = read(&[start, &answer].concat(), bound, false);
            }
        }
    }
}
