//! Reads a Responses request.
//!
//! The input is a list of items. What the model gave in one answer (reasoning,
//! words, calls) stands there as several items in a row and is one message
//! here, so that the number of answers so far is the number of the model's messages.

use serde_json::{Value, json};

use super::super::super::add_line;
use super::super::{is_added_context, properties, words};
use crate::script::{Conversation, OfferedTool, Said, Speaker, ToolKind};

/// Fields that let the vendor add to the conversation what the request does not show.
const UNSEEN_INPUT: &[&str] = &["previous_response_id", "conversation", "prompt"];

pub(super) fn request(body: &[u8]) -> Result<Conversation, String> {
    let request: Value = serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
    if let Some(field) = UNSEEN_INPUT.iter().find(|field| !request[**field].is_null()) {
        return Err(format!("{field}: is not served here; send the whole conversation as input"));
    }
    if request["background"] == true {
        return Err("background: is not served here; leave it out and wait for the answer".to_owned());
    }
    let tools = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut read = Conversation {
        model: request["model"].as_str().unwrap_or_default().to_owned(),
        system: request["instructions"].as_str().unwrap_or_default().to_owned(),
        tools: tools.iter().flat_map(|tool| read_tools(tool, None)).collect(),
        streamed: request["stream"].as_bool().unwrap_or(false),
        usage_in_stream: true,
        size_bytes: body.len(),
        ..Conversation::default()
    };
    match &request["input"] {
        Value::String(text) => push_user(&mut read, text.clone(), String::new()),
        Value::Array(items) => {
            for item in items {
                read_item(item, &mut read)?;
            }
        }
        _ => return Err("input: must be a text or a list of items".to_owned()),
    }
    Ok(read)
}

fn read_item(item: &Value, read: &mut Conversation) -> Result<(), String> {
    match item["type"].as_str() {
        None | Some("message") => read_message(item, read),
        Some("item_reference") => {
            Err("input: item_reference is not served here; send the items themselves".to_owned())
        }
        Some(kind) if kind.ends_with("_output") => {
            let output = &item["output"];
            let said = if output.is_object() { words(&output["content"]) } else { words(output) };
            push_user(read, String::new(), said);
            Ok(())
        }
        Some(kind) if kind == "reasoning" || kind.ends_with("_call") => {
            push_assistant(read, "");
            Ok(())
        }
        // Summaries of what was left out, and kinds that are not known yet: nobody's turn.
        Some(_) => Ok(()),
    }
}

fn read_message(item: &Value, read: &mut Conversation) -> Result<(), String> {
    let text = words(&item["content"]);
    match item["role"].as_str() {
        Some("assistant") => push_assistant(read, &text),
        Some("user") if !is_added_context(&text) => push_user(read, text, String::new()),
        Some("user" | "system" | "developer") => add_line(&mut read.system, &text),
        _ => return Err("input: every role is user, assistant, system or developer".to_owned()),
    }
    Ok(())
}

fn push_user(read: &mut Conversation, text: String, tool_results: String) {
    read.messages.push(Said { by: Speaker::User, text, tool_results });
}

/// Adds to the answer that the last item was part of, or begins the next one.
fn push_assistant(read: &mut Conversation, text: &str) {
    match read.messages.last_mut() {
        Some(last) if last.by == Speaker::Assistant => {
            if !text.is_empty() {
                add_line(&mut last.text, text);
            }
        }
        _ => {
            let said = Said { by: Speaker::Assistant, text: text.to_owned(), tool_results: String::new() };
            read.messages.push(said);
        }
    }
}

fn read_tools(tool: &Value, namespace: Option<&str>) -> Vec<OfferedTool> {
    let (kind, properties) = match tool["type"].as_str() {
        Some("function") => (ToolKind::Function, properties(&tool["parameters"])),
        Some("custom") => (ToolKind::Text, serde_json::Map::new()),
        Some("local_shell") => (ToolKind::LocalShell, serde_json::Map::new()),
        Some("namespace") => {
            let inner = tool["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
            return inner.iter().flat_map(|each| read_tools(each, tool["name"].as_str())).collect();
        }
        _ => return Vec::new(),
    };
    let fallback = json!("local_shell");
    let name = if kind == ToolKind::LocalShell { &fallback } else { &tool["name"] };
    let Some(name) = name.as_str().map(str::to_owned) else { return Vec::new() };
    vec![OfferedTool { name, properties, kind, namespace: namespace.map(str::to_owned) }]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(body: &Value) -> Result<Conversation, String> {
        request(body.to_string().as_bytes())
    }

    #[test]
    fn items_of_one_answer_are_one_turn() {
        let output = json!({"type": "function_call_output", "call_id": "1", "output": "out"});
        let call =
            json!({"type": "function_call", "call_id": "1", "name": "exec_command", "arguments": "{}"});
        let body = json!({
            "model": "m", "instructions": "be good",
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]},
                {"role": "user", "content": "hi"},
                {"type": "reasoning", "summary": []},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "looking"}]},
                call, call, output, output,
                {"type": "custom_tool_call", "call_id": "2", "name": "apply_patch", "input": "x"},
                {"type": "custom_tool_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "done"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and stop"}]},
            ],
            "tools": [
                {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}},
                {"type": "custom", "name": "apply_patch"},
                {"type": "local_shell"},
                {"type": "web_search"},
                {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
            ],
        });
        let read = read(&body).unwrap();
        assert_eq!(read.view().assistant_count(), 2);
        assert_eq!((read.view().prompt(), read.view().last_message()), ("hi", "and stop"));
        assert!(read.system.contains("be good\nrules\n<environment_context>"), "{}", read.system);
        assert!(read.view().tool_result_contains("done"));
        let tools: Vec<_> = read.tools.iter().map(|tool| (tool.name.as_str(), tool.kind)).collect();
        let expected = [
            ("exec_command", ToolKind::Function),
            ("apply_patch", ToolKind::Text),
            ("local_shell", ToolKind::LocalShell),
            ("spawn", ToolKind::Function),
        ];
        assert_eq!(tools, expected);
        assert_eq!(read.tools[3].namespace.as_deref(), Some("agents"));
    }

    #[test]
    fn what_the_request_does_not_show_is_refused_with_words_to_act_on() {
        for field in UNSEEN_INPUT {
            let error = read(&json!({"input": "hi", *field: "x"})).unwrap_err();
            assert!(error.contains(field) && error.contains("whole conversation"), "{error}");
        }
        assert!(read(&json!({"input": "hi", "background": true})).unwrap_err().contains("background"));
        assert!(read(&json!({"input": [{"type": "item_reference", "id": "x"}]})).is_err());
        assert!(read(&json!({})).unwrap_err().contains("input"));
        assert_eq!(read(&json!({"input": "hi"})).unwrap().view().prompt(), "hi");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = request(&bytes);
        }
    }
}
