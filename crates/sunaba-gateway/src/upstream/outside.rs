//! What a request may not have the vendor do.
//!
//! A vendor that searches or runs a program for a request does so past the
//! sandbox's egress rules, and at a price that no reservation bounds. Tools of
//! that kind are left out of the request.

use super::fields::Fields;
use super::google;
use crate::dialect::Vendor;
use crate::json::Lazy;

/// Kinds of tools that the client runs itself.
const OPENAI_OWN: &[&str] =
    &["function", "custom", "local_shell", "apply_patch", "tool_search", "computer", "computer_use_preview"];
const ANTHROPIC_OWN: &[&str] =
    &["custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_"];
/// How deep groups of tools may lie in each other.
const GROUPS_MAX: usize = 4;
/// How many of the tools that were left out are named, and by how much of their names.
const NAMED_MAX: usize = 20;
const NAME_MAX_CHARS: usize = 60;

/// Leaves out the tools that the vendor would run; gives their names.
pub(super) fn remove_tools(vendor: Vendor, fields: &mut Fields) -> Result<Vec<String>, String> {
    if vendor == Vendor::Google {
        return google::remove_tools(fields);
    }
    let tools = fields.lazy("tools");
    let mut removed = Vec::new();
    tools.each(|tool| {
        if !is_own(vendor, tool, 0)? && removed.len() < NAMED_MAX {
            let [kind] = tool.pick(["type"])?;
            let name = kind.text().map(|kind| kind.chars().take(NAME_MAX_CHARS).collect());
            removed.push(name.unwrap_or_else(|| "unnamed".to_owned()));
        }
        Ok(())
    })?;
    if removed.is_empty() {
        return Ok(removed);
    }
    let mut kept = String::from("[");
    tools.each(|tool| {
        if is_own(vendor, tool, 0)? {
            kept.push_str(if kept.len() > 1 { "," } else { "" });
            kept.push_str(tool.raw());
        }
        Ok(())
    })?;
    if kept.len() == 1 {
        fields.remove("tools");
        fields.remove("tool_choice");
    } else {
        kept.push(']');
        fields.set_raw("tools", kept);
    }
    Ok(removed)
}

fn is_own(vendor: Vendor, tool: Lazy<'_>, depth: usize) -> Result<bool, String> {
    let [kind, name, environment, inner] = tool.pick(["type", "name", "environment", "tools"])?;
    Ok(match (vendor, kind.text().as_deref()) {
        (Vendor::Anthropic, None) => name.text().is_some(),
        (Vendor::Anthropic, Some(kind)) => ANTHROPIC_OWN.iter().any(|own| kind.starts_with(own)),
        (Vendor::OpenAi, Some("shell")) => {
            let [place] = environment.pick(["type"])?;
            place.is_text("local")
        }
        (Vendor::OpenAi, Some("namespace")) => {
            let mut all = depth < GROUPS_MAX;
            let is_list = inner.each(|tool| {
                all = all && is_own(vendor, tool, depth + 1)?;
                Ok(())
            })?;
            is_list && all
        }
        (Vendor::OpenAi, Some(kind)) => OPENAI_OWN.contains(&kind),
        (Vendor::OpenAi, None) | (Vendor::Google, _) => false,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;
    use crate::dialect::{Anthropic, Dialect, Responses};

    fn removed(dialect: &dyn Dialect, request: &Value) -> (Vec<String>, Fields) {
        let mut fields = Fields::parse(dialect, &Bytes::from(request.to_string())).unwrap();
        (remove_tools(dialect.vendor(), &mut fields).unwrap(), fields)
    }

    #[test]
    fn tools_that_the_vendor_runs_are_left_out() {
        let codex = json!({"tools": [
            {"type": "function", "name": "exec_command"}, {"type": "web_search", "external_web_access": true},
            {"type": "mcp", "server_url": "http://x"}, {"type": "custom", "name": "apply_patch"},
            {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
            {"type": "namespace", "name": "web", "tools": [{"type": "web_search"}]}]});
        let (names, mut fields) = removed(&Responses, &codex);
        assert_eq!(names, ["web_search", "mcp", "namespace"]);
        let kept: Vec<Value> = serde_json::from_str(fields.lazy("tools").raw()).unwrap();
        let of = |index: usize| codex["tools"][index].clone();
        assert_eq!(kept, [of(0), of(3), of(4)]);
        assert!(remove_tools(Vendor::OpenAi, &mut fields).unwrap().is_empty());
        let claude = json!({"tools": [
            {"name": "Bash", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"},
            {"type": "web_fetch_20250910", "name": "web_fetch"}, {"type": "code_execution_20250825", "name": "x"}]});
        assert_eq!(removed(&Anthropic, &claude).0, ["web_fetch_20250910", "code_execution_20250825"]);
        let only = json!({"tools": [{"type": "web_search_20250305"}], "tool_choice": {"type": "any"}});
        assert_eq!(removed(&Anthropic, &only).1.to_bytes(), "{}");
    }
}
