//! Reads a request. Its fields may be written in either of two spellings, and a list of one without its brackets.

use super::super::gather::Gather;
use super::super::{Detail, add_line};
use crate::json::Lazy;
use crate::script::{Conversation, OfferedTool, Speaker, ToolKind};

/// How runtimes begin what they send in the user's name and no person said.
const ADDED_CONTEXT: &str = "<session_context>";

pub(super) fn request(body: &[u8], detail: Detail) -> Result<Conversation, String> {
    let names = ["contents", "tools", "systemInstruction", "system_instruction"];
    let [contents, tools, system, system_too] = Lazy::parse(body)?.pick(names)?;
    let read = Conversation { usage_in_stream: true, size_bytes: body.len(), ..Conversation::default() };
    let mut gather = Gather::new(detail, read);
    for system in [system, system_too] {
        gather.system(&parts_of(system)?.text);
    }
    let declarations = |gather: &mut Gather, tool: Lazy<'_>| {
        let [declared, declared_too] = tool.pick(["functionDeclarations", "function_declarations"])?;
        for declared in [declared, declared_too] {
            declared.each_or_one(|function| read_function(gather, function))?;
        }
        Ok(())
    };
    if tools.is_object() {
        declarations(&mut gather, tools)?;
    } else {
        gather.tools(tools, declarations)?;
    }
    if !contents.each_or_one(|content| read_content(content, &mut gather))? {
        return Err("contents: must be a list".to_owned());
    }
    Ok(gather.done())
}

fn read_content(content: Lazy<'_>, gather: &mut Gather) -> Result<(), String> {
    let [role] = content.pick(["role"])?;
    let Parts { text, tool_results, added } = parts_of(content)?;
    gather.system(&added);
    match role.text().as_deref() {
        Some("model") => gather.say_on(&text),
        // What was only added to a conversation is nobody's turn.
        Some("user" | "function") | None
            if text.is_empty() && tool_results.is_empty() && !added.is_empty() =>
        {
            Ok(())
        }
        Some("user" | "function") | None => gather.say(Speaker::User, text, tool_results),
        Some(_) => Err("contents: every role is user or model".to_owned()),
    }
}

/// What the parts of one content say.
#[derive(Default)]
struct Parts {
    text: String,
    tool_results: String,
    /// What a runtime added of its own.
    added: String,
}

fn parts_of(content: Lazy<'_>) -> Result<Parts, String> {
    let mut read = Parts::default();
    if let Some(text) = content.text() {
        read.text = text.into_owned();
        return Ok(read);
    }
    let [parts] = content.pick(["parts"])?;
    parts.each_or_one(|part| {
        let names = ["text", "thought", "functionResponse", "function_response"];
        let [text, thought, answered, answered_too] = part.pick(names)?;
        if let Some(text) = text.text().filter(|_| !thought.is_true()) {
            let is_added = text.trim_start().starts_with(ADDED_CONTEXT);
            add_line(if is_added { &mut read.added } else { &mut read.text }, &text);
        }
        for answered in [answered, answered_too].into_iter().filter(|answered| answered.is_object()) {
            add_line(&mut read.tool_results, &result_of(answered)?);
        }
        Ok(())
    })?;
    Ok(read)
}

/// A tool's result: its words where it has some, else the object as it was sent.
fn result_of(answered: Lazy<'_>) -> Result<String, String> {
    let [response] = answered.pick(["response"])?;
    let [output, error] = response.pick(["output", "error"])?;
    let words = output.text().or_else(|| error.text());
    Ok(words.map_or_else(|| response.raw().to_owned(), std::borrow::Cow::into_owned))
}

fn read_function(gather: &mut Gather, function: Lazy<'_>) -> Result<(), String> {
    let names = ["name", "parameters", "parametersJsonSchema", "parameters_json_schema"];
    let [name, parameters, schema, schema_too] = function.pick(names)?;
    let Some(name) = name.text() else { return Ok(()) };
    let schema = [parameters, schema, schema_too].into_iter().find(|schema| schema.is_object());
    let properties = gather.properties(schema.unwrap_or(Lazy::NULL))?;
    gather.offer(OfferedTool {
        name: name.into_owned(),
        properties,
        kind: ToolKind::Function,
        namespace: None,
    });
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
    fn a_request_is_read_in_all_its_shapes() {
        let call = json!({"functionCall": {"name": "run_shell_command", "args": {"command": "ls"}}});
        let body = json!({
            "systemInstruction": {"parts": [{"text": "be"}, {"text": "good"}]},
            "contents": [
                {"role": "user", "parts": [{"text": "<session_context>\nhere"}, {"text": "hi"}]},
                {"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": "looking"}]},
                {"role": "model", "parts": [call, call]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "run_shell_command", "response": {"output": "out"}}},
                    {"functionResponse": {"name": "x", "response": {"error": "broken"}}},
                    {"functionResponse": {"name": "y", "response": {"n": 5}}},
                    {"text": "and stop"}]},
            ],
            "tools": [{"functionDeclarations": [
                {"name": "run_shell_command", "parametersJsonSchema": {"properties": {"command": {"type": "string"}}}},
                {"name": "glob", "parameters": {"properties": {"pattern": {}}}}]}],
        });
        let read = read(&body).unwrap();
        assert_eq!(read.system, "be\ngood\n<session_context>\nhere");
        assert_eq!((read.view().assistant_count(), read.message_count), (1, 3));
        assert_eq!((read.view().prompt(), read.view().last_message()), ("hi", "and stop"));
        assert_eq!(read.messages[1].text, "looking");
        assert_eq!(read.messages[2].tool_results, "out\nbroken\n{\"n\":5}");
        let tools: Vec<_> = read.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(tools, ["run_shell_command", "glob"]);
        assert!(read.tools[0].properties.contains_key("command"));
    }

    #[test]
    fn the_other_spelling_and_lists_of_one_are_read_too() {
        let body = json!({
            "system_instruction": {"parts": {"text": "be good"}},
            "contents": {"parts": {"text": "hi"}},
            "tools": {"function_declarations": {"name": "glob"}},
        });
        let read = read(&body).unwrap();
        assert_eq!((read.system.as_str(), read.view().prompt()), ("be good", "hi"));
        assert_eq!(read.tools[0].name, "glob");
        assert!(request(b"{}", Detail::Whole).is_err());
        assert!(request(br#"{"contents": [{"role": "system", "parts": []}]}"#, Detail::Whole).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = request(&bytes, Detail::Whole);
        }
    }
}
