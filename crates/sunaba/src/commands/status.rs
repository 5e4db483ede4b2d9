//! `sunaba status` and `sunaba node lost`: the servers that share a database, and giving one of them up.

use std::process::ExitCode;

use serde_json::Value;

use super::Context;
use crate::args::NodeCommand;
use crate::failure::Outcome;
use crate::output;
use crate::render::{clean_line, table};

/// Shows the nodes, and how far behind anything is.
pub(crate) async fn status(context: &Context) -> Outcome {
    let answer = context.client().await?.status().await?;
    if context.json {
        output::json(&answer);
        return Ok(ExitCode::SUCCESS);
    }
    output::out(&nodes(&answer));
    output::line(&summary(&answer));
    Ok(ExitCode::SUCCESS)
}

/// Gives up a node that will not come back.
pub(crate) async fn node(context: &Context, command: &NodeCommand) -> Outcome {
    let NodeCommand::Lost { id } = command;
    let answer = context.client().await?.give_up_node(id).await?;
    if context.json {
        output::json(&answer);
    } else {
        output::line(&format!("{} is given up; what it held is tried again elsewhere", clean_line(id)));
    }
    Ok(ExitCode::SUCCESS)
}

fn nodes(answer: &Value) -> String {
    let listed = answer.get("nodes").and_then(Value::as_array).cloned().unwrap_or_default();
    let here = answer.get("node_id").and_then(Value::as_str);
    let rows: Vec<Vec<String>> = listed.iter().map(|node| row(node, here)).collect();
    table(&["NODE", "STATUS", "HEARD", "SANDBOXES", "ROLES", "VERSION"], &rows)
}

fn row(node: &Value, here: Option<&str>) -> Vec<String> {
    let text = |name: &str| node.get(name).and_then(Value::as_str).unwrap_or("-");
    let number = |name: &str| node.get(name).and_then(Value::as_i64).unwrap_or(0);
    let roles: Vec<&str> = match node.get("roles").and_then(Value::as_array) {
        Some(roles) => roles.iter().filter_map(Value::as_str).collect(),
        None => Vec::new(),
    };
    let mark = if here == Some(text("id")) { " (answers)" } else { "" };
    vec![
        clean_line(&format!("{}{mark}", text("id"))),
        clean_line(text("status")),
        format!("{} s ago", number("silent_seconds")),
        format!("{} of {}", number("sandboxes"), number("max_sandboxes")),
        clean_line(&roles.join(", ")),
        clean_line(text("version")),
    ]
}

fn summary(answer: &Value) -> String {
    let at = |path: &str| answer.pointer(path);
    let number = |path: &str| at(path).and_then(Value::as_i64).unwrap_or(0);
    let store = at("/store/kind").and_then(Value::as_str).unwrap_or("-");
    let bus = match at("/bus/connected").and_then(Value::as_bool) {
        Some(true) => "redis connected",
        Some(false) => "redis away",
        None => "no redis",
    };
    format!(
        "feed at {}, {} behind; store {} answers in {} ms; {bus}",
        number("/feed/head"),
        number("/feed/behind"),
        clean_line(store),
        number("/store/read_ms"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_fits_a_glance() {
        let answer = json!({
            "node_id": "node_1",
            "nodes": [
                {"id": "node_1", "status": "up", "silent_seconds": 1, "sandboxes": 2, "max_sandboxes": 200,
                 "roles": ["api", "orchestrator"], "version": "0.1.0"},
                {"id": "node_2", "status": "silent", "silent_seconds": 99, "sandboxes": 0, "max_sandboxes": 50,
                 "roles": ["api"], "version": "0.1.0"},
            ],
            "feed": {"head": 17, "seen": 16, "behind": 1},
            "store": {"kind": "postgres", "read_ms": 2},
            "bus": {"connected": false},
        });
        let text = nodes(&answer);
        assert!(text.contains("node_1 (answers)  up      1 s ago   2 of 200"), "{text}");
        assert!(text.contains("node_2            silent  99 s ago"), "{text}");
        assert_eq!(summary(&answer), "feed at 17, 1 behind; store postgres answers in 2 ms; redis away");
    }
}
