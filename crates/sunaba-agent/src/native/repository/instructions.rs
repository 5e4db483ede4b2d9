//! What a repository tells every agent: `AGENTS.md`, `CLAUDE.md` and the like.

use std::path::{Path, PathBuf};

use super::{places, read};
use crate::text::clip;

/// Of all of them together. What is nearest has it first.
const ALL_MAX_CHARS: usize = 60_000;

/// The files that are called so, under their names, the nearest last; none when there are none.
pub(crate) fn instructions(cwd: &Path, names: &[&str]) -> Option<String> {
    let places = places(cwd);
    let root = places.first()?.clone();
    let mut found: Vec<(String, String)> = Vec::new();
    let mut left = ALL_MAX_CHARS;
    for place in places.iter().rev() {
        for (name, text) in in_directory(place, &root, names).into_iter().rev() {
            let text = clip(&text, left);
            left = left.saturating_sub(text.chars().count());
            found.push((name, text));
        }
    }
    if found.is_empty() {
        return None;
    }
    let sections: Vec<String> =
        found.into_iter().rev().map(|(name, text)| format!("## {name}\n\n{text}")).collect();
    Some(format!(
        "# Instructions of this repository\n\nWhere they differ, what stands later here outweighs what stands \
earlier.\n\n{}",
        sections.join("\n\n")
    ))
}

/// Those of one directory. Often one is a link to the other, or says the same: then both names stand over the words.
fn in_directory(place: &Path, root: &Path, wanted: &[&str]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for name in wanted {
        let path: PathBuf = place.join(name);
        let Some(text) = read(&path).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
        else {
            continue;
        };
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        match found.iter_mut().find(|(_, other)| *other == text) {
            Some((names, _)) => *names = format!("{names} and {shown}"),
            None => found.push((shown, text)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

    #[test]
    fn the_nearest_stands_last_and_both_are_named() {
        let dir = tempfile::TempDir::new().unwrap();
        let root = dir.path().join("repository");
        let inner = root.join("crates/inner");
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(dir.path().join("AGENTS.md"), "of somebody else").unwrap();
        std::fs::write(root.join("AGENTS.md"), "use tabs\n").unwrap();
        std::fs::write(root.join("CLAUDE.md"), "be kind\n").unwrap();
        std::fs::write(inner.join("AGENTS.md"), "use spaces\n").unwrap();
        std::os::unix::fs::symlink("AGENTS.md", inner.join("CLAUDE.md")).unwrap();
        let text = instructions(&inner, &NAMES).unwrap();
        let expected = "## AGENTS.md\n\nuse tabs\n\n## CLAUDE.md\n\nbe kind\n\n\
## crates/inner/AGENTS.md and crates/inner/CLAUDE.md\n\nuse spaces";
        assert!(text.ends_with(expected), "{text}");
        assert!(!text.contains("somebody else"), "what lies outside of the repository says nothing here");
        assert_eq!(instructions(&dir.path().join("nowhere"), &NAMES), None);
    }

    #[test]
    fn when_there_is_too_much_the_nearest_is_kept() {
        let dir = tempfile::TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        std::fs::create_dir(dir.path().join("inner")).unwrap();
        std::fs::write(dir.path().join("AGENTS.md"), "f".repeat(50_000)).unwrap();
        std::fs::write(dir.path().join("inner/AGENTS.md"), "n".repeat(50_000)).unwrap();
        let text = instructions(&dir.path().join("inner"), &NAMES).unwrap();
        let count = |letter: &str| text.matches(&letter.repeat(100)).count() * 100;
        assert_eq!((count("n"), count("f")), (50_000, 10_000));
    }
}
