//! Renders a script's tool calls into the tools that the request offers.
//!
//! Runtimes name the same few tools differently; a file tool that is not
//! offered is done by a patch or by the shell. What cannot be done is an error
//! that says so.

use serde_json::{Map, Value, json};
use sunaba_types::shim::WORKSPACE_INSIDE;

use super::conversation::{OfferedTool, ToolKind, View};
use super::patch;
use super::play::ToolCall;
use super::turn::Tool;

const SHELL: &[&str] = &[
    "Bash",
    "bash",
    "shell",
    "exec_command",
    "shell_command",
    "local_shell",
    "run_shell_command",
    "execute_bash",
    "terminal",
];
const WRITE: &[&str] = &["Write", "write", "write_file", "create_file"];
const EDIT: &[&str] = &["Edit", "edit", "replace", "str_replace", "edit_file"];
const READ: &[&str] = &["Read", "read", "read_file"];
/// One tool for all that is done to files, which its command says; each beside the tool that does only that.
const EDITOR: &[&str] = &["file_editor"];
const EDITOR_COMMANDS: [(&[&str], &str); 3] = [(WRITE, "create"), (EDIT, "str_replace"), (READ, "view")];
const GLOB: &[&str] = &["Glob", "glob"];
const GREP: &[&str] = &["Grep", "grep", "grep_search", "search_file_content"];

const PATH: &[&str] = &["file_path", "filePath", "path", "filename"];
const DIRECTORY: &[&str] = &["path", "dir_path", "directory"];
const COMMAND: &[&str] = &["command", "cmd", "script"];
const CONTENT: &[&str] = &["content", "contents", "file_text", "text"];
const OLD: &[&str] = &["old_string", "oldString", "old_str", "old_text"];
const NEW: &[&str] = &["new_string", "newString", "new_str", "new_text"];
const PATTERN: &[&str] = &["pattern", "query"];
const TIMEOUT: &[&str] = &["timeout", "timeout_ms"];

/// Renders one call.
pub(crate) fn render(tool: &Tool, view: View<'_>) -> Result<ToolCall, String> {
    let offered = &view.conversation.tools;
    let fill = |text: &str| fill(text, view, Quoting::None);
    match tool {
        Tool::Call(call) => match offered.iter().find(|tool| tool.name == call.name) {
            Some(tool) => Ok(call_of(tool, call.input.clone())),
            None => Err(not_offered(&call.name, offered)),
        },
        Tool::Shell(shell) => {
            let command = self::fill(&shell.command, view, Quoting::Shell);
            shell_call(offered, &command, shell.timeout_ms)
        }
        Tool::Write(write) => {
            let (path, content) = (fill(&write.path), fill(&write.content));
            file_call(offered, WRITE, &path, vec![(CONTENT, json!(content))]).or_else(|error| {
                let patch = patch::add_file(offered, &path, &content);
                patch.map_or_else(|| by_shell(offered, &patch::write_command(&path, &content), error), Ok)
            })
        }
        Tool::Edit(edit) => {
            let (path, old, new) = (fill(&edit.path), fill(&edit.old), fill(&edit.new));
            file_call(offered, EDIT, &path, vec![(OLD, json!(old)), (NEW, json!(new))]).or_else(|error| {
                let patch = patch::update_file(offered, &path, &old, &new);
                patch.map_or_else(|| by_shell(offered, &patch::edit_command(&path, &old, &new), error), Ok)
            })
        }
        Tool::Read(read) => {
            let path = fill(&read.path);
            file_call(offered, READ, &path, Vec::new())
                .or_else(|error| by_shell(offered, &format!("cat -- {}", quoted(&path)), error))
        }
        Tool::Glob(search) => search_call(offered, GLOB, &search.pattern, search.path.as_deref()),
        Tool::Grep(search) => {
            search_call(offered, GREP, &search.pattern, search.path.as_deref()).or_else(|error| {
                let place = quoted(search.path.as_deref().unwrap_or("."));
                by_shell(offered, &format!("grep -rn -e {} -- {place}", quoted(&search.pattern)), error)
            })
        }
    }
}

/// A call of an offered tool, with an id of its own.
pub(super) fn call_of(tool: &OfferedTool, input: Value) -> ToolCall {
    let id = uuid::Uuid::now_v7().simple().to_string();
    ToolCall { id, name: tool.name.clone(), namespace: tool.namespace.clone(), kind: tool.kind, input }
}

/// What no tool is offered for, done by the shell; the error is that of the tool.
fn by_shell(offered: &[OfferedTool], command: &str, error: String) -> Result<ToolCall, String> {
    shell_call(offered, command, None).map_err(|_| error)
}

fn shell_call(offered: &[OfferedTool], command: &str, timeout_ms: Option<u64>) -> Result<ToolCall, String> {
    let tool = find(offered, SHELL)?;
    if tool.kind == ToolKind::LocalShell {
        let words = json!(["bash", "-lc", command]);
        return Ok(call_of(
            tool,
            json!({"type": "exec", "command": words, "timeout_ms": timeout_ms, "env": {}}),
        ));
    }
    let key = key_of(tool, COMMAND);
    // Some runtimes take the words of a command instead of a line.
    let is_list = tool.properties.get(key).is_some_and(|property| property["type"] == "array");
    let value = if is_list { json!(["bash", "-lc", command]) } else { json!(command) };
    let mut input = Map::from_iter([(key.to_owned(), value)]);
    let timeout_key = TIMEOUT.iter().find(|name| tool.properties.contains_key(**name));
    if let (Some(timeout), Some(name)) = (timeout_ms, timeout_key) {
        input.insert((*name).to_owned(), json!(timeout));
    }
    if tool.properties.contains_key("description") {
        input.insert("description".to_owned(), json!("Scripted command"));
    }
    Ok(call_of(tool, Value::Object(input)))
}

fn file_call(
    offered: &[OfferedTool],
    names: &[&str],
    path: &str,
    values: Vec<(&[&str], Value)>,
) -> Result<ToolCall, String> {
    let own = find(offered, names);
    let tool = own.clone().or_else(|error| find(offered, EDITOR).map_err(|_| error))?;
    let key = key_of(tool, PATH);
    let wants_absolute = tool.properties.get(key).is_some_and(|property| {
        property["description"].as_str().is_some_and(|words| words.to_lowercase().contains("absolute"))
    });
    let path = if wants_absolute && !path.starts_with('/') {
        format!("{WORKSPACE_INSIDE}/{path}")
    } else {
        path.to_owned()
    };
    let mut input = Map::from_iter([(key.to_owned(), json!(path))]);
    let command = EDITOR_COMMANDS.iter().find(|(known, _)| own.is_err() && *known == names);
    if let Some((_, command)) = command {
        input.insert("command".to_owned(), json!(command));
    }
    if tool.properties.contains_key("instruction") {
        input.insert("instruction".to_owned(), json!("Scripted edit"));
    }
    input.extend(values.into_iter().map(|(names, value)| (key_of(tool, names).to_owned(), value)));
    Ok(call_of(tool, Value::Object(input)))
}

fn search_call(
    offered: &[OfferedTool],
    names: &[&str],
    pattern: &str,
    path: Option<&str>,
) -> Result<ToolCall, String> {
    let tool = find(offered, names)?;
    let mut input = Map::from_iter([(key_of(tool, PATTERN).to_owned(), json!(pattern))]);
    if let Some(path) = path {
        input.insert(key_of(tool, DIRECTORY).to_owned(), json!(path));
    }
    Ok(call_of(tool, Value::Object(input)))
}

fn find<'a>(offered: &'a [OfferedTool], names: &[&str]) -> Result<&'a OfferedTool, String> {
    let found = names.iter().find_map(|name| offered.iter().find(|tool| tool.name == *name));
    found.ok_or_else(|| not_offered(names[0], offered))
}

/// The first of the usual names that the tool has, or the first of all.
fn key_of<'a>(tool: &OfferedTool, names: &[&'a str]) -> &'a str {
    names.iter().find(|name| tool.properties.contains_key(**name)).unwrap_or(&names[0])
}

fn not_offered(name: &str, offered: &[OfferedTool]) -> String {
    let names: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
    format!("the script asks for the tool {name}, but the request offers only [{}]", names.join(", "))
}

/// How a filled-in text is kept from being read as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quoting {
    None,
    Shell,
}

/// Fills in `{{prompt}}` and `{{last_message}}`. One pass: what is filled in is not looked at again.
pub(crate) fn fill(text: &str, view: View<'_>, quoting: Quoting) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        filled.push_str(&rest[..at]);
        let tail = &rest[at..];
        let known = [("{{prompt}}", view.prompt()), ("{{last_message}}", view.last_message())];
        match known.into_iter().find(|(name, _)| tail.starts_with(name)) {
            Some((name, value)) => {
                match quoting {
                    Quoting::None => filled.push_str(value),
                    Quoting::Shell => filled.push_str(&quoted(value)),
                }
                rest = &tail[name.len()..];
            }
            None => {
                filled.push_str("{{");
                rest = &tail[2..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// One word for a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
