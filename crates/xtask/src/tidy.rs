//! Rules of the house that no other tool checks.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// No source file may be longer than this.
const MAX_LINES: usize = 800;
/// Marks of work that was not finished, split so that this file does not find itself.
const UNFINISHED: [&str; 4] =
    [concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[ign", "ore")];

/// Checks every source file of the workspace.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut complaints = Vec::new();
    for file in sources(Path::new("crates"))? {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let lines = text.lines().count();
        if lines > MAX_LINES {
            complaints.push(format!("{}: {lines} lines; split it (at most {MAX_LINES})", file.display()));
        }
        for (index, line) in text.lines().enumerate() {
            for mark in UNFINISHED.iter().filter(|mark| line.contains(**mark)) {
                complaints.push(format!("{}:{}: {mark}", file.display(), index + 1));
            }
        }
        if is_crate_root(&file) && !text.starts_with("//!") && !text.starts_with("#![doc") {
            complaints.push(format!("{}: a crate begins with what it is for (//!)", file.display()));
        }
    }
    if !complaints.is_empty() {
        bail!("the house is not in order:\n  {}", complaints.join("\n  "));
    }
    Ok(())
}

fn is_crate_root(file: &Path) -> bool {
    file.ends_with("src/lib.rs") || file.ends_with("src/main.rs")
}

fn sources(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
