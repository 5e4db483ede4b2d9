//! The tools as they are described to the model.

use serde_json::{Value, json};
use sunaba_llm::ToolDefinition;

pub(super) fn definitions() -> Vec<ToolDefinition> {
    vec![read(), write(), edit(), bash(), glob(), grep(), todo()]
}

/// One tool.
pub(crate) fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
        cache_control: None,
    }
}

fn path(description: &str) -> Value {
    json!({ "type": "string", "description": format!("{description} Relative paths start in the work tree.") })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn count(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn read() -> ToolDefinition {
    tool(
        "Read",
        "Reads a text file. Each line comes with its number and a tab in front. Without offset and limit, the \
first 2000 lines; lines longer than 2000 characters are cut.",
        json!({
            "file_path": path("The file."),
            "offset": count("The first line to read, from 1."),
            "limit": count("How many lines to read."),
        }),
        &["file_path"],
    )
}

fn write() -> ToolDefinition {
    tool(
        "Write",
        "Writes a file, in place of what is there; makes missing directories. To change part of a file, use Edit.",
        json!({ "file_path": path("The file."), "content": text("The whole new content.") }),
        &["file_path", "content"],
    )
}

fn edit() -> ToolDefinition {
    tool(
        "Edit",
        "Replaces text in a file. old_string must be in the file exactly as given, white space included, without \
the line numbers that Read adds, and only once unless replace_all is set.",
        json!({
            "file_path": path("The file."),
            "old_string": text("The text to replace."),
            "new_string": text("The text in its place."),
            "replace_all": flag("Replace every occurrence."),
        }),
        &["file_path", "old_string", "new_string"],
    )
}

fn bash() -> ToolDefinition {
    tool(
        "Bash",
        "Runs a command in bash, in the work tree, with no standard input. Every call is a new shell. Output \
beyond 30000 characters is cut in the middle.",
        json!({
            "command": text("The command."),
            "description": text("What it is for, in a few words."),
            "timeout": count("Milliseconds after which it is ended; 120000 unless given, at most 600000."),
        }),
        &["command"],
    )
}

fn glob() -> ToolDefinition {
    tool(
        "Glob",
        "Finds files by name, newest first. Knows *, ?, **, [a-z] and {a,b}. Looks into everything but .git.",
        json!({
            "pattern": text("The pattern, such as src/**/*.rs."),
            "path": path("The directory to look in."),
        }),
        &["pattern"],
    )
}

fn grep() -> ToolDefinition {
    tool(
        "Grep",
        "Searches file contents with a regular expression (Rust syntax), line by line. Looks into everything but \
.git and binary files.",
        json!({
            "pattern": text("The regular expression."),
            "path": path("The file or directory to search."),
            "glob": text("Only files whose name, or path from there, matches this pattern."),
            "output_mode": {
                "type": "string",
                "enum": ["files_with_matches", "content", "count"],
                "description": "Paths (the default), matching lines, or how many lines match in each file.",
            },
            "-i": flag("Upper and lower case are the same."),
            "-n": flag("Show line numbers with content; on unless set to false."),
            "-A": count("Lines to show after each match."),
            "-B": count("Lines to show before each match."),
            "-C": count("Lines to show around each match."),
            "head_limit": count("Most lines or files to give."),
        }),
        &["pattern"],
    )
}

fn todo() -> ToolDefinition {
    tool(
        "TodoWrite",
        "Keeps your list of what is to do, for work of three steps or more. Give the whole list each time; one item is \
in progress at a time, and is marked completed as soon as it is.",
        json!({
            "todos": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "content": text("What is to do."),
                        "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
                    },
                    "required": ["content", "status"],
                },
            },
        }),
        &["todos"],
    )
}
