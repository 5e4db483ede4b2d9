//! TodoWrite: the model's own list of what is to do. It lives in the conversation; here it is only looked over.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use super::{ToolReply, ToolResult};

const ITEMS_MAX: usize = 200;

#[derive(Debug, Deserialize)]
pub(super) struct Input {
    todos: Vec<Item>,
}

#[derive(Debug, Deserialize)]
struct Item {
    content: String,
    status: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

pub(super) fn run(_: &Path, input: &Input) -> ToolResult {
    if input.todos.len() > ITEMS_MAX {
        return Err(format!("{} items are more than anybody does; at most {ITEMS_MAX}", input.todos.len()));
    }
    if input.todos.iter().any(|item| item.content.trim().is_empty()) {
        return Err("an item says nothing".to_owned());
    }
    let count = |status| input.todos.iter().filter(|item| item.status == status).count();
    let mut list = format!("{} of {} done\n", count(Status::Completed), input.todos.len());
    for item in &input.todos {
        let mark = match item.status {
            Status::Pending => ' ',
            Status::InProgress => '>',
            Status::Completed => 'x',
        };
        // Writing to a string cannot fail.
        let _ = writeln!(list, "[{mark}] {}", item.content.trim());
    }
    Ok(ToolReply::ok(list))
}
