//! Read: a text file with line numbers.

use std::path::Path;

use serde::Deserialize;

use super::{ToolReply, ToolResult, looks_binary, read_regular, resolve};
use crate::text::clip;

const FILE_MAX_BYTES: u64 = 64 * 1024 * 1024;
const LINES_DEFAULT: usize = 2000;
const LINE_MAX_CHARS: usize = 2000;
const OUTPUT_MAX_BYTES: usize = 100_000;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    file_path: String,
    #[serde(default)]
    offset: Option<usize>,
    #[serde(default)]
    limit: Option<usize>,
}

pub(super) fn run(cwd: &Path, input: &Input) -> ToolResult {
    let name = &input.file_path;
    let bytes = read_regular(&resolve(cwd, name), name, FILE_MAX_BYTES)?;
    if looks_binary(&bytes) {
        return Err(format!("{name} is a binary file of {} bytes", bytes.len()));
    }
    if bytes.is_empty() {
        return Ok(ToolReply::ok(format!("({name} is empty)")));
    }
    let text = String::from_utf8_lossy(&bytes);
    let total = text.lines().count();
    let first = input.offset.unwrap_or(1).max(1);
    if first > total {
        return Err(format!("{name} has {total} lines; there is no line {first}"));
    }
    let limit = input.limit.unwrap_or(LINES_DEFAULT).max(1);
    let mut shown = String::new();
    let mut next = first;
    for line in text.lines().skip(first - 1).take(limit) {
        if shown.len() > OUTPUT_MAX_BYTES {
            break;
        }
        shown.push_str(&format!("{next:>6}\t{}\n", clip(line, LINE_MAX_CHARS)));
        next += 1;
    }
    if next <= total {
        shown.push_str(&format!("(lines {first} to {} of {total}; use offset to read on)", next - 1));
    }
    Ok(ToolReply::ok(shown))
}
