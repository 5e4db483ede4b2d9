//! What is looked at in a request in Google's dialect. Names are taken in both of the vendor's spellings, and an
//! object for a list of one, because the vendor takes them too.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::fields::Fields;
use super::media::{Media, pointed_at};
use crate::json::Lazy;
use crate::prices::Price;

/// The options of an answer that are passed on.
const OPTIONS: &[&str] = &[
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "responseModalities",
    "candidateCount",
    "maxOutputTokens",
    "temperature",
    "topP",
    "topK",
    "seed",
    "presencePenalty",
    "frequencyPenalty",
    "responseLogprobs",
    "logprobs",
    "thinkingConfig",
    "mediaResolution",
];
/// How many of the tools that were left out are named, and by how much of their names.
const NAMED_MAX: usize = 20;
const NAME_MAX_CHARS: usize = 60;
/// How deep the results of tools may lie in each other.
const RESULTS_MAX: usize = 3;

/// A name in the spelling `likeThis`.
pub(super) fn camel(name: &str) -> String {
    let mut spelled = String::with_capacity(name.len());
    let mut letters = name.chars().peekable();
    while let Some(letter) = letters.next() {
        match letters.peek() {
            Some(next) if letter == '_' && !spelled.is_empty() && next.is_ascii_lowercase() => {
                spelled.push(next.to_ascii_uppercase());
                letters.next();
            }
            _ => spelled.push(letter),
        }
    }
    spelled
}

/// Leaves out the options of the answer that are not known, and refuses answers in more than words.
pub(super) fn check_options(fields: &mut Fields) -> Result<(), String> {
    const NAME: &str = "generationConfig";
    let config = fields.lazy(NAME);
    if config.is_null() {
        return Ok(());
    }
    if !config.is_object() {
        return Err(format!("{NAME}: must be an object"));
    }
    let (mut kept, mut left_out, mut is_changed, mut twice) = (Vec::new(), Vec::new(), false, None);
    config.each_field(|name, value| {
        let spelled = camel(&name);
        if !OPTIONS.contains(&spelled.as_str()) {
            is_changed = true;
            left_out.extend((!value.is_null()).then(|| format!("{NAME}.{spelled}")));
        } else if kept.iter().any(|(known, _)| *known == spelled) {
            twice = Some(spelled);
        } else {
            is_changed |= spelled != name;
            kept.push((spelled, value.raw().to_owned()));
        }
        twice.is_none()
    })?;
    if let Some(name) = twice {
        return Err(format!("{NAME}.{name}: is named twice"));
    }
    if is_changed {
        let rebuilt = kept.iter().map(|(name, raw)| format!("{}:{raw}", Value::from(name.as_str())));
        fields.set_raw(NAME, format!("{{{}}}", rebuilt.collect::<Vec<_>>().join(",")));
    }
    left_out.iter().for_each(|name| fields.note_left_out(name));
    let wanted = fields.small("generationConfig.responseModalities")?;
    let is_text = |kind: &Value| kind.as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("text"));
    if wanted.as_array().is_some_and(|kinds| !kinds.iter().all(is_text)) {
        return Err(format!("{NAME}.responseModalities: only TEXT has a price here; leave it out"));
    }
    Ok(())
}

/// Leaves out the tools that the vendor would run: all but the functions that the client runs.
pub(super) fn remove_tools(fields: &mut Fields) -> Result<Vec<String>, String> {
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    fields.lazy("tools").each_or_one(|tool| {
        if !tool.is_object() {
            return Err("tools: must be a list of objects".to_owned());
        }
        tool.each_field(|name, value| {
            let spelled = camel(&name);
            if spelled == "functionDeclarations" {
                kept.push(format!("{{\"functionDeclarations\":{}}}", value.raw()));
            } else if !value.is_null() && removed.len() < NAMED_MAX {
                removed.push(spelled.chars().take(NAME_MAX_CHARS).collect());
            }
            true
        })
    })?;
    if removed.is_empty() {
        return Ok(removed);
    }
    if kept.is_empty() {
        fields.remove("tools");
        fields.remove("toolConfig");
    } else {
        fields.set_raw("tools", format!("[{}]", kept.join(",")));
    }
    Ok(removed)
}

/// Looks through what was said for pictures and files.
pub(super) fn media(fields: &Fields, price: &Price) -> Result<Media, String> {
    let mut media = Media::default();
    for name in ["contents", "systemInstruction"] {
        fields.lazy(name).each_or_one(|content| parts(content, price, &mut media, 0))?;
    }
    Ok(media)
}

fn parts(holder: Lazy<'_>, price: &Price, media: &mut Media, depth: usize) -> Result<(), String> {
    let mut wrong = Ok(());
    holder.each_field(|name, value| {
        if name == "parts" {
            wrong = value.each_or_one(|each| part(each, price, media, depth)).map(drop);
        }
        wrong.is_ok()
    })?;
    wrong
}

fn part(part: Lazy<'_>, price: &Price, media: &mut Media, depth: usize) -> Result<(), String> {
    let mut wrong = Ok(());
    part.each_field(|name, value| {
        if value.is_null() {
            return true;
        }
        wrong = match camel(&name).as_str() {
            "fileData" => Err(pointed_at("file")),
            "inlineData" => inline(value, price, media),
            "functionResponse" if depth >= RESULTS_MAX => Err("contents: too deep".to_owned()),
            "functionResponse" => parts(value, price, media, depth + 1),
            _ => Ok(()),
        };
        wrong.is_ok()
    })?;
    wrong
}

/// Counts a picture or a file that is all there. What sounds or moves has another price, or more tokens than bytes.
fn inline(value: Lazy<'_>, price: &Price, media: &mut Media) -> Result<(), String> {
    let (mut kinds, mut size) = (Vec::new(), 0);
    value.each_field(|name, value| {
        match camel(&name).as_str() {
            "mimeType" => kinds.push(value.text().unwrap_or_default().to_ascii_lowercase()),
            "data" => size = u64::try_from(value.raw().len()).unwrap_or(u64::MAX),
            _ => {}
        }
        true
    })?;
    let kind = if kinds.len() == 1 { kinds[0].as_str() } else { "no single kind" };
    let is_image = kind.starts_with("image/");
    if !is_image && kind != "application/pdf" && !kind.starts_with("text/") {
        let kind: String = kind.chars().take(NAME_MAX_CHARS).collect();
        return Err(format!("nothing bounds the price of what is of {kind}; send text, pictures or PDFs"));
    }
    media.tokens = media.tokens.saturating_add(price.image_tokens);
    if is_image {
        media.size_bytes = media.size_bytes.saturating_add(size);
    }
    Ok(())
}

/// The request by which the vendor counts the input, and where it is sent.
pub(super) fn count_request(fields: &Fields, model: &str) -> (Cow<'static, str>, Bytes) {
    let mut counted = fields.only(&["contents", "systemInstruction", "tools", "toolConfig"]);
    counted.set("model", &json!(format!("models/{model}")));
    let mut body = b"{\"generateContentRequest\":".to_vec();
    body.extend_from_slice(&counted.to_bytes());
    body.push(b'}');
    (format!("/v1beta/models/{model}:countTokens").into(), body.into())
}

/// How long an error asks to wait. It says so in its body.
pub(super) fn retry_delay(body: &[u8]) -> Option<Duration> {
    let error: Value = serde_json::from_slice(body).ok()?;
    let details = error["error"]["details"].as_array()?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Google;

    fn fields(request: &Value) -> Fields {
        Fields::parse(&Google, &Bytes::from(request.to_string())).unwrap()
    }

    #[test]
    fn both_spellings_are_one_name() {
        for (name, spelled) in [
            ("max_output_tokens", "maxOutputTokens"),
            ("topP", "topP"),
            ("top_p", "topP"),
            ("_x", "_x"),
            ("a_", "a_"),
        ] {
            assert_eq!(camel(name), spelled);
        }
        let twice = json!({"generationConfig": {}, "generation_config": {}}).to_string();
        assert!(Fields::parse(&Google, &Bytes::from(twice)).unwrap_err().contains("twice"));
    }

    #[test]
    fn options_that_are_not_known_are_left_out_and_named() {
        let mut sent = fields(&json!({
            "generation_config": {"max_output_tokens": 9, "routingConfig": {"autoMode": {}}, "topK": 1},
        }));
        check_options(&mut sent).unwrap();
        assert_eq!(sent.to_bytes(), r#"{"generationConfig":{"maxOutputTokens":9,"topK":1}}"#);
        assert_eq!(sent.left_out(), ["generationConfig.routingConfig"]);
        let twice = json!({"generationConfig": {"topK": 1, "top_k": 2}});
        assert!(check_options(&mut fields(&twice)).unwrap_err().contains("twice"));
        let spoken = json!({"generationConfig": {"responseModalities": ["TEXT", "AUDIO"]}});
        assert!(check_options(&mut fields(&spoken)).unwrap_err().contains("only TEXT"));
        let usual = json!({"contents": [], "generationConfig": {"temperature": 1, "topP": 0.95, "topK": 64,
            "responseModalities": ["TEXT"], "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 8192}}});
        let mut sent = fields(&usual);
        check_options(&mut sent).unwrap();
        assert!(!sent.is_changed());
    }

    #[test]
    fn only_functions_are_offered() {
        let functions = json!([{"name": "glob"}]);
        let mut sent = fields(
            &json!({"tools": [{"functionDeclarations": functions, "googleSearch": {}}, {"url_context": {}}]}),
        );
        assert_eq!(remove_tools(&mut sent).unwrap(), ["googleSearch", "urlContext"]);
        assert_eq!(sent.to_bytes(), json!({"tools": [{"functionDeclarations": functions}]}).to_string());
        let mut only = fields(&json!({"tools": {"code_execution": {}}, "toolConfig": {}}));
        assert_eq!(remove_tools(&mut only).unwrap(), ["codeExecution"]);
        assert_eq!(only.to_bytes(), "{}");
        let mut usual = fields(&json!({"tools": [{"functionDeclarations": functions}]}));
        assert!(remove_tools(&mut usual).unwrap().is_empty() && !usual.is_changed());
    }

    #[test]
    fn pictures_are_counted_and_links_are_refused() {
        let price = crate::PriceTable::built_in().find("gemini-2.5-pro").unwrap().clone();
        let found = |part: Value| media(&fields(&json!({"contents": [{"parts": [part]}]})), &price);
        let picture = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
        assert_eq!(found(picture.clone()).unwrap(), Media { size_bytes: 6, tokens: price.image_tokens });
        let result = json!({"functionResponse": {"response": {"fileData": 1}, "parts": [picture]}});
        assert_eq!(found(result).unwrap().tokens, price.image_tokens);
        let pdf = json!({"inline_data": {"mime_type": "application/pdf", "data": "AAAA"}});
        assert_eq!(found(pdf).unwrap(), Media { size_bytes: 0, tokens: price.image_tokens });
        assert_eq!(found(json!({"text": "x", "fileData": null})).unwrap(), Media::default());
        assert_eq!(found(json!({"functionCall": {"args": {"fileData": {}}}})).unwrap(), Media::default());
        let link = json!({"file_data": {"fileUri": "https://x"}});
        for (part, word) in [
            (link.clone(), "base64"),
            (json!({"functionResponse": {"parts": link}}), "base64"),
            (json!({"inlineData": {"mimeType": "audio/mp3", "data": "AA"}}), "audio/mp3"),
            (json!({"inlineData": {"mimeType": "image/png", "mime_type": "video/mp4"}}), "no single kind"),
        ] {
            let words = found(part.clone()).unwrap_err();
            assert!(words.contains(word), "{part}: {words}");
        }
    }

    #[test]
    fn the_wait_is_read_from_an_errors_details() {
        let error = json!({"error": {"code": 429, "details": [{"@type": "a"}, {"@type": "b", "retryDelay": "34.5s"}]}});
        assert_eq!(retry_delay(error.to_string().as_bytes()), Some(Duration::from_millis(34_500)));
        for other in ["", "{}", r#"{"error":{"details":[{"retryDelay":"-3s"}]}}"#] {
            assert_eq!(retry_delay(other.as_bytes()), None);
        }
    }
}
