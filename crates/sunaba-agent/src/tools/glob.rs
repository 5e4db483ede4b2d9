//! Glob: files by name.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::walk::Walk;
use super::{ToolReply, ToolResult, pattern, resolve, shown};

const FOUND_MAX: usize = 10_000;
const SHOWN_MAX: usize = 200;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    pattern: String,
    #[serde(default)]
    path: Option<String>,
}

pub(super) fn run(cwd: &Path, input: &Input, halt: &CancellationToken) -> ToolResult {
    let start = resolve(cwd, input.path.as_deref().unwrap_or_default());
    if !start.is_dir() {
        return Err(format!("{} is not a directory", start.display()));
    }
    let (plain, rest) = pattern::split_base(&input.pattern);
    let base = start.join(plain);
    let wanted = pattern::compile(rest)?;
    let mut walk = Walk::new(&base, halt);
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for path in &mut walk {
        let name = path.strip_prefix(&base).unwrap_or(&path).to_string_lossy();
        if wanted.is_match(&name) {
            found.push((modified(&path), path));
        }
        if found.len() == FOUND_MAX {
            break;
        }
    }
    if found.is_empty() {
        return Ok(ToolReply::ok("no file matches"));
    }
    found.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    let mut lines: Vec<_> = found.iter().take(SHOWN_MAX).map(|(_, path)| shown(cwd, path)).collect();
    if found.len() > SHOWN_MAX || walk.was_cut() {
        lines.push(format!("({SHOWN_MAX} of at least {} shown; use a narrower pattern)", found.len()));
    }
    Ok(ToolReply::ok(lines.join("\n")))
}

fn modified(path: &Path) -> SystemTime {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}
