//! Write: a file's whole content.

use std::path::Path;

use serde::Deserialize;

use super::{FileEdit, ToolReply, ToolResult, describe, resolve, shown};

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    file_path: String,
    content: String,
}

pub(super) fn run(cwd: &Path, input: &Input) -> ToolResult {
    let name = &input.file_path;
    let path = resolve(cwd, name);
    let before = match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => return Err(format!("{name} is a directory")),
        Ok(metadata) if !metadata.is_file() => return Err(format!("{name} is not a regular file")),
        Ok(_) => Some(std::fs::read(&path).map_err(|error| describe(&error, "read", name))?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(describe(&error, "write", name)),
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| describe(&error, "make the directory of", name))?;
    }
    std::fs::write(&path, &input.content).map_err(|error| describe(&error, "write", name))?;
    let verb = if before.is_some() { "replaced" } else { "created" };
    let before = before.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let edit = FileEdit::between(shown(cwd, &path), before.as_deref(), &input.content);
    let content = format!("{verb} {name} ({} lines)", input.content.lines().count());
    Ok(ToolReply::edited(content, edit))
}
