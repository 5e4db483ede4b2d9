//! What a request may not have the vendor do.
//!
//! A vendor that searches, fetches a link or runs a program for a request does so
//! past the sandbox's egress rules, and at a price that no reservation bounds.
//! Tools of that kind are left out of the request; parts that only point at their
//! content are refused, with the way to send it instead.

use serde_json::Value;

use super::fields::Fields;
use crate::dialect::Vendor;
use crate::prices::Price;

/// Kinds of tools that the client runs itself.
const OPENAI_OWN: &[&str] =
    &["function", "custom", "local_shell", "apply_patch", "tool_search", "computer", "computer_use_preview"];
const ANTHROPIC_OWN: &[&str] =
    &["custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_"];

/// Options that the price table knows no price for, with the values that cost the usual.
const PRICED_OTHERWISE: &[(&str, &[&str])] = &[
    ("service_tier", &["auto", "default", "flex", "standard_only", "standard"]),
    ("speed", &["standard"]),
    ("inference_geo", &["global", "not_available"]),
];

/// Refuses options that change the price.
pub(super) fn check_options(fields: &Fields) -> Result<(), String> {
    for (name, usual) in PRICED_OTHERWISE {
        let value = fields.get(name);
        if !value.is_null() && !value.as_str().is_some_and(|value| usual.contains(&value)) {
            return Err(format!("{name}: {value} has no price here; leave it out"));
        }
    }
    for name in ["mcp_servers", "container", "web_search_options"] {
        if !fields.get(name).is_null() {
            return Err(format!("{name}: would run outside the sandbox; leave it out"));
        }
    }
    Ok(())
}

/// Leaves out the tools that the vendor would run; gives their names.
pub(super) fn remove_tools(vendor: Vendor, fields: &mut Fields) -> Vec<String> {
    let Value::Array(tools) = fields.get("tools") else { return Vec::new() };
    let (kept, removed): (Vec<Value>, Vec<Value>) = tools.into_iter().partition(|tool| is_own(vendor, tool));
    if removed.is_empty() {
        return Vec::new();
    }
    if kept.is_empty() {
        fields.remove("tools");
        fields.remove("tool_choice");
    } else {
        fields.set("tools", &Value::Array(kept));
    }
    removed.iter().map(|tool| tool["type"].as_str().unwrap_or("unnamed").to_owned()).collect()
}

fn is_own(vendor: Vendor, tool: &Value) -> bool {
    match (vendor, tool["type"].as_str()) {
        (Vendor::Anthropic, None) => tool["name"].is_string(),
        (Vendor::Anthropic, Some(kind)) => ANTHROPIC_OWN.iter().any(|own| kind.starts_with(own)),
        (Vendor::OpenAi, Some("shell")) => tool["environment"]["type"] == "local",
        (Vendor::OpenAi, Some("namespace")) => {
            tool["tools"].as_array().is_some_and(|inner| inner.iter().all(|tool| is_own(vendor, tool)))
        }
        (Vendor::OpenAi, Some(kind)) => OPENAI_OWN.contains(&kind),
        (Vendor::OpenAi, None) => false,
    }
}

/// Pictures and files among the messages: their bytes, which are not text, and the tokens they count for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Media {
    pub(super) size_bytes: u64,
    pub(super) tokens: u64,
}

/// Looks through the messages for pictures and files; refuses those that only point somewhere.
pub(super) fn find_media(fields: &Fields, price: &Price) -> Result<Media, String> {
    let mut media = Media::default();
    for name in ["messages", "input", "system"] {
        look(&fields.get(name), price, &mut media)?;
    }
    Ok(media)
}

fn look(value: &Value, price: &Price, media: &mut Media) -> Result<(), String> {
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| look(value, price, media)),
        Value::Object(part) => {
            let inside = match part.get("type").and_then(Value::as_str) {
                // What a tool was called with is the model's own words.
                Some("tool_use" | "function_call") => return Ok(()),
                Some("image") => Some(&value["source"]["data"]),
                Some("document")
                    if value["source"]["type"] != "text" && value["source"]["type"] != "content" =>
                {
                    return file(&value["source"]["data"], price, media);
                }
                Some("input_image" | "computer_screenshot") => Some(&value["image_url"]),
                Some("image_url") => Some(&value["image_url"]["url"]),
                Some("input_file") => return file(&value["file_data"], price, media),
                Some("file") => return file(&value["file"]["file_data"], price, media),
                _ => None,
            };
            match inside {
                Some(data) => image(data, price, media),
                None => part.values().try_for_each(|value| look(value, price, media)),
            }
        }
        _ => Ok(()),
    }
}

fn image(data: &Value, price: &Price, media: &mut Media) -> Result<(), String> {
    media.size_bytes += content(data, "image")?;
    media.tokens += price.image_tokens;
    Ok(())
}

/// A file's pages count as text and as pictures; its bytes are more than both in all but made-up files.
fn file(data: &Value, price: &Price, media: &mut Media) -> Result<(), String> {
    content(data, "file")?;
    media.tokens += price.image_tokens;
    Ok(())
}

fn content(data: &Value, what: &str) -> Result<u64, String> {
    match data.as_str() {
        // Base64 by itself has no colon; with one it is a link unless it brings its data along.
        Some(data) if data.starts_with("data:") || !data.contains(':') => {
            Ok(u64::try_from(data.len()).unwrap_or(u64::MAX))
        }
        _ => Err(format!(
            "the {what} is only pointed at, and the vendor would fetch it past this sandbox's egress rules; \
             send its bytes in base64 instead"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: &Value) -> Fields {
        Fields::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn tools_that_the_vendor_runs_are_left_out() {
        let mut codex = fields(&json!({"tools": [
            {"type": "function", "name": "exec_command"}, {"type": "web_search", "external_web_access": true},
            {"type": "mcp", "server_url": "http://x"}, {"type": "custom", "name": "apply_patch"},
            {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn"}]},
            {"type": "namespace", "name": "web", "tools": [{"type": "web_search"}]}]}));
        assert_eq!(remove_tools(Vendor::OpenAi, &mut codex), ["web_search", "mcp", "namespace"]);
        assert_eq!(codex.get("tools").as_array().unwrap().len(), 3);
        assert!(remove_tools(Vendor::OpenAi, &mut codex).is_empty());
        let mut claude = fields(&json!({"tools": [
            {"name": "Bash", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"},
            {"type": "web_fetch_20250910", "name": "web_fetch"}, {"type": "code_execution_20250825", "name": "x"}]}));
        let removed = remove_tools(Vendor::Anthropic, &mut claude);
        assert_eq!(removed, ["web_fetch_20250910", "code_execution_20250825"]);
        let mut only =
            fields(&json!({"tools": [{"type": "web_search_20250305"}], "tool_choice": {"type": "any"}}));
        remove_tools(Vendor::Anthropic, &mut only);
        assert_eq!(only.to_bytes(), "{}");
    }

    #[test]
    fn options_without_a_price_are_refused() {
        for request in [
            json!({"service_tier": "priority"}),
            json!({"speed": "fast"}),
            json!({"inference_geo": "us"}),
            json!({"mcp_servers": []}),
        ] {
            assert!(check_options(&fields(&request)).unwrap_err().contains("leave it out"), "{request}");
        }
        check_options(&fields(&json!({"service_tier": "auto", "speed": null}))).unwrap();
    }

    #[test]
    fn pictures_count_by_their_number_and_links_are_refused() {
        let price = crate::PriceTable::built_in().find("gpt-5").unwrap().clone();
        let inline = [
            json!({"type": "image", "source": {"type": "base64", "data": "AAAA"}}),
            json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"}),
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
            json!({"type": "tool_result", "content": [{"type": "image", "source": {"data": "AAAA"}}]}),
        ];
        for part in inline {
            let media = find_media(&fields(&json!({"messages": [{"content": [part]}]})), &price).unwrap();
            assert_eq!(media.tokens, price.image_tokens, "{part}");
            assert!(media.size_bytes >= 4);
        }
        let pointed = [
            json!({"type": "image", "source": {"type": "url", "url": "https://x/?secret"}}),
            json!({"type": "document", "source": {"type": "file", "file_id": "f"}}),
            json!({"type": "input_image", "image_url": "https://x"}),
            json!({"type": "input_image", "file_id": "f"}),
            json!({"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": "https://x"}}),
            json!({"type": "image_url", "image_url": {"url": "HTTPS://x"}}),
            json!({"type": "input_file", "file_url": "https://x"}),
            json!({"type": "file", "file": {"file_id": "f"}}),
        ];
        for part in pointed {
            let error = find_media(&fields(&json!({"input": [{"content": [part]}]})), &price).unwrap_err();
            assert!(error.contains("base64"), "{error}");
        }
        let text = json!({"messages": [{"content": [{"type": "document", "source": {"type": "text", "data": "x"}}]}]});
        assert_eq!(find_media(&fields(&text), &price).unwrap(), Media::default());
    }
}
