//! Changes of files for runtimes that offer no tool for them: as a patch in the `apply_patch` format, or as a
//! shell command.

use serde_json::{Map, Value, json};

use super::conversation::{OfferedTool, ToolKind};
use super::play::ToolCall;
use super::tools::{call_of, quoted};

const PATCH_TOOL: &str = "apply_patch";
const PATCH_KEYS: &[&str] = &["input", "patch", "patchText", "patch_text"];

/// Writes a whole file. A patch is made of lines, so a text that does not end with one is not for it.
pub(super) fn add_file(offered: &[OfferedTool], path: &str, content: &str) -> Option<ToolCall> {
    let lines = content.ends_with('\n').then(|| marked('+', content))?;
    patch_call(offered, &format!("*** Add File: {path}\n{lines}"))
}

/// Replaces whole lines.
pub(super) fn update_file(offered: &[OfferedTool], path: &str, old: &str, new: &str) -> Option<ToolCall> {
    let is_lines = |text: &str| text.ends_with('\n');
    if !is_lines(old) || !(new.is_empty() || is_lines(new)) {
        return None;
    }
    let lines = format!("{}{}", marked('-', old), marked('+', new));
    patch_call(offered, &format!("*** Update File: {path}\n@@\n{lines}"))
}

/// The command that writes a whole file.
pub(super) fn write_command(path: &str, content: &str) -> String {
    let path = quoted(path);
    format!("mkdir -p \"$(dirname -- {path})\" && printf %s {} > {path}", quoted(content))
}

/// The command that replaces a text by another, both taken literally, and fails when it is not there.
pub(super) fn edit_command(path: &str, old: &str, new: &str) -> String {
    let (old, new, path) = (quoted(old), quoted(new), quoted(path));
    let program = r#"s/\Q$ENV{OLD}\E/$ENV{NEW}/ ? $done++ : warn "the text to replace is not in $ARGV\n"; END { exit !$done }"#;
    format!("OLD={old} NEW={new} perl -0777 -i -pe '{program}' -- {path}")
}

fn marked(mark: char, text: &str) -> String {
    text.lines().map(|line| format!("{mark}{line}\n")).collect()
}

fn patch_call(offered: &[OfferedTool], change: &str) -> Option<ToolCall> {
    let tool = offered.iter().find(|tool| tool.name == PATCH_TOOL)?;
    let patch = format!("*** Begin Patch\n{change}*** End Patch\n");
    let input = match tool.kind {
        ToolKind::Text => json!(patch),
        ToolKind::Function => {
            let key = PATCH_KEYS.iter().find(|key| tool.properties.contains_key(**key))?;
            Value::Object(Map::from_iter([((*key).to_owned(), json!(patch))]))
        }
        ToolKind::LocalShell => return None,
    };
    Some(call_of(tool, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(kind: ToolKind, key: &str) -> Vec<OfferedTool> {
        let properties = Map::from_iter([(key.to_owned(), Value::Null)]);
        vec![OfferedTool { name: PATCH_TOOL.into(), properties, kind, namespace: None }]
    }

    #[test]
    fn whole_lines_become_a_patch_in_the_tools_own_input() {
        let text = offered(ToolKind::Text, "");
        let patch = "*** Begin Patch\n*** Add File: a/b\n+one\n+two\n*** End Patch\n";
        assert_eq!(add_file(&text, "a/b", "one\ntwo\n").unwrap().input, json!(patch));
        let function = offered(ToolKind::Function, "patchText");
        let call = update_file(&function, "a", "old\n", "new\n").unwrap();
        let patch = "*** Begin Patch\n*** Update File: a\n@@\n-old\n+new\n*** End Patch\n";
        assert_eq!(call.input, json!({"patchText": patch}));
        assert!(add_file(&text, "a", "no end").is_none());
        assert!(update_file(&text, "a", "part", "of a line").is_none());
        assert!(add_file(&offered(ToolKind::Function, "other"), "a", "b\n").is_none());
    }

    #[test]
    fn the_edit_command_takes_both_texts_literally() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("it's a file");
        std::fs::write(&file, "x = 'a.*b$c'; # a.*b$c\n").unwrap();
        let run = |old: &str, new: &str| {
            let command = edit_command(file.to_str().unwrap(), old, new);
            std::process::Command::new("sh").args(["-c", &command]).output().unwrap()
        };
        let output = run("'a.*b$c'", "'$ENV{HOME} \\1'");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "x = '$ENV{HOME} \\1'; # a.*b$c\n");
        let missing = run("not there", "x");
        assert!(!missing.status.success() && !missing.stderr.is_empty());
        assert!(std::fs::read_to_string(&file).unwrap().contains("HOME"), "a failed edit changes nothing");
        std::fs::remove_file(&file).unwrap();
        assert!(!run("a", "b").status.success());
    }
}
