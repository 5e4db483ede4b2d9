//! Reads a Responses request.
//!
//! The input is a list of items. What the model gave in one answer (reasoning,
//! words, calls) stands there as several items in a row and is one message
//! here, so that the number of answers so far is the number of the model's messages.

use super::super::super::Detail;
use super::super::super::gather::Gather;
use super::super::{is_added_context, words};
use crate::json::Lazy;
use crate::script::{Conversation, OfferedTool, Speaker, ToolKind};

/// Fields that let the vendor add to the conversation what the request does not show.
const UNSEEN_INPUT: [&str; 3] = ["previous_response_id", "conversation", "prompt"];
/// How deep groups of tools may lie in each other.
const GROUPS_MAX: usize = 4;

pub(super) fn request(body: &[u8], detail: Detail) -> Result<Conversation, String> {
    let whole = Lazy::parse(body)?;
    let unseen = whole.pick(UNSEEN_INPUT)?;
    if let Some((field, _)) = UNSEEN_INPUT.iter().zip(unseen).find(|(_, value)| !value.is_null()) {
        return Err(format!("{field}: is not served here; send the whole conversation as input"));
    }
    let names = ["background", "model", "instructions", "stream", "input", "tools"];
    let [background, model, instructions, stream, input, tools] = whole.pick(names)?;
    if background.is_true() {
        return Err("background: is not served here; leave it out and wait for the answer".to_owned());
    }
    let read = Conversation {
        model: model.text().unwrap_or_default().into_owned(),
        streamed: stream.is_true(),
        usage_in_stream: true,
        size_bytes: body.len(),
        ..Conversation::default()
    };
    let mut gather = Gather::new(detail, read);
    gather.system(&instructions.text().unwrap_or_default());
    gather.tools(tools, |gather, tool| read_tools(gather, tool, None, 0))?;
    if let Some(text) = input.text() {
        gather.say(Speaker::User, text.into_owned(), String::new())?;
    } else if !input.each(|item| read_item(item, &mut gather))? {
        return Err("input: must be a text or a list of items".to_owned());
    }
    Ok(gather.done())
}

fn read_item(item: Lazy<'_>, gather: &mut Gather) -> Result<(), String> {
    let [kind, output] = item.pick(["type", "output"])?;
    match kind.text().as_deref() {
        None | Some("message") => read_message(item, gather),
        Some("item_reference") => {
            Err("input: item_reference is not served here; send the items themselves".to_owned())
        }
        Some(kind) if kind.ends_with("_output") => {
            let [content] = output.pick(["content"])?;
            let said = words(if output.is_object() { content } else { output })?;
            gather.say(Speaker::User, String::new(), said)
        }
        Some(kind) if kind == "reasoning" || kind.ends_with("_call") => gather.say_on(""),
        // Summaries of what was left out, and kinds that are not known yet: nobody's turn.
        Some(_) => Ok(()),
    }
}

fn read_message(item: Lazy<'_>, gather: &mut Gather) -> Result<(), String> {
    let [role, content] = item.pick(["role", "content"])?;
    let text = words(content)?;
    match role.text().as_deref() {
        Some("assistant") => gather.say_on(&text),
        Some("user") if !is_added_context(&text) => gather.say(Speaker::User, text, String::new()),
        Some("user" | "system" | "developer") => {
            gather.system(&text);
            Ok(())
        }
        _ => Err("input: every role is user, assistant, system or developer".to_owned()),
    }
}

fn read_tools(
    gather: &mut Gather,
    tool: Lazy<'_>,
    namespace: Option<&str>,
    depth: usize,
) -> Result<(), String> {
    let [kind, name, parameters, inner] = tool.pick(["type", "name", "parameters", "tools"])?;
    let name = name.text();
    let kind = match kind.text().as_deref() {
        Some("function") => ToolKind::Function,
        Some("custom") => ToolKind::Text,
        Some("local_shell") => ToolKind::LocalShell,
        Some("namespace") if depth < GROUPS_MAX => {
            inner.each(|each| read_tools(gather, each, name.as_deref(), depth + 1))?;
            return Ok(());
        }
        _ => return Ok(()),
    };
    let name = if kind == ToolKind::LocalShell { Some("local_shell".into()) } else { name };
    let Some(name) = name else { return Ok(()) };
    let properties =
        if kind == ToolKind::Function { gather.properties(parameters)? } else { serde_json::Map::new() };
    let namespace = namespace.map(str::to_owned);
    gather.offer(OfferedTool { name: name.into_owned(), properties, kind, namespace });
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(body: &Value) -> Result<Conversation, String> {
        request(body.to_string().as_bytes(), Detail::Whole)
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
            let error = read(&json!({"input": "hi", field: "x"})).unwrap_err();
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
            let _ = request(&bytes, Detail::Whole);
        }
    }
}
