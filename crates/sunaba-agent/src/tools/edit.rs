//! Edit: one piece of text in place of another.

use std::path::Path;

use serde::Deserialize;

use super::{FileEdit, ToolReply, ToolResult, describe, read_regular, resolve, shown};

const FILE_MAX_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

pub(super) fn run(cwd: &Path, input: &Input) -> ToolResult {
    let name = &input.file_path;
    let path = resolve(cwd, name);
    let bytes = read_regular(&path, name, FILE_MAX_BYTES)?;
    let before = String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8 text"))?;
    let after = replaced(&before, input)?;
    std::fs::write(&path, &after).map_err(|error| describe(&error, "write", name))?;
    let edit = FileEdit::between(shown(cwd, &path), Some(&before), &after);
    Ok(ToolReply::edited(format!("edited {name}"), edit))
}

fn replaced(before: &str, input: &Input) -> Result<String, String> {
    let Input { file_path: name, old_string: old, new_string: new, replace_all } = input;
    if old.is_empty() {
        return Err("old_string is empty; use Write to make a file".to_owned());
    }
    if old == new {
        return Err("old_string and new_string are the same".to_owned());
    }
    match before.matches(old.as_str()).count() {
        0 => Err(format!("old_string is not in {name}; it has to match exactly, white space included")),
        1 => Ok(before.replacen(old.as_str(), new, 1)),
        _ if *replace_all => Ok(before.replace(old.as_str(), new)),
        count => Err(format!(
            "old_string is {count} times in {name}; give more of its surroundings, or set replace_all"
        )),
    }
}
