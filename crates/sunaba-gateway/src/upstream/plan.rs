//! How a request is sent: what it may use, and what is changed in it.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};

use super::fields::Fields;
use super::{google, known, media, outside};
use crate::budget::Need;
use crate::dialect::{Dialect, Vendor};
use crate::prices::Price;
use crate::script::Conversation;

/// Tokens that vendors add of their own: the words that explain tools to the model.
const ADDED_TOKENS: u64 = 500;

/// A request that is ready to be sent.
#[derive(Debug)]
pub(super) struct Plan {
    original: Bytes,
    fields: Fields,
    /// The field that bounds the answer.
    output_field: &'static str,
    pub(super) need: Need,
    pub(super) removed_tools: Vec<String>,
    /// Whether the usage that the answer tells was asked for by us alone.
    pub(super) hides_usage: bool,
}

impl Plan {
    /// Looks through a request; the error is for the client.
    pub(super) fn new(
        dialect: &dyn Dialect,
        conversation: &Conversation,
        body: Bytes,
        price: &Price,
    ) -> Result<Self, String> {
        let mut fields = Fields::parse(dialect, &body)?;
        known::check_options(dialect.vendor(), &mut fields)?;
        let removed_tools = outside::remove_tools(dialect.vendor(), &mut fields)?;
        let media = media::find(&fields, price)?;
        let hides_usage = conversation.streamed && !conversation.usage_in_stream;
        if hides_usage {
            let mut options = fields.small("stream_options")?;
            if !options.is_object() {
                options = json!({});
            }
            options["include_usage"] = json!(true);
            fields.set("stream_options", &options);
        }
        let output_field = output_field(dialect, &fields)?;
        // A token is never less than a byte of text, so there are never more tokens than bytes.
        let text_bytes = u64::try_from(body.len()).unwrap_or(u64::MAX).saturating_sub(media.size_bytes);
        let need = Need {
            input_tokens: text_bytes + media.tokens + ADDED_TOKENS,
            output_tokens: asked_output(dialect, &fields)?.unwrap_or(price.max_output),
            choices: asked_choices(dialect.vendor(), &fields)?,
            thinking_tokens: asked_thinking(dialect.vendor(), &fields)?,
        };
        Ok(Self { original: body, fields, output_field, need, removed_tools, hides_usage })
    }

    /// Bounds the answer more tightly.
    pub(super) fn lower_output(&mut self, tokens: u64) {
        self.fields.set(self.output_field, &json!(tokens));
    }

    /// What is sent: the client's own bytes when nothing had to be changed.
    pub(super) fn body(&self) -> Bytes {
        if self.fields.is_changed() { self.fields.to_bytes() } else { self.original.clone() }
    }

    /// What was left out because it is not known.
    pub(super) fn left_out(&self) -> &[String] {
        self.fields.left_out()
    }

    /// The request by which the vendor counts the input, and where it is sent; none where there is no such route.
    pub(super) fn count_request(
        &self,
        dialect: &dyn Dialect,
        model: &str,
    ) -> Option<(Cow<'static, str>, Bytes)> {
        const MESSAGES: &[&str] = &["model", "messages", "system", "tools", "tool_choice", "thinking"];
        const RESPONSES: &[&str] = &[
            "model",
            "input",
            "instructions",
            "tools",
            "tool_choice",
            "text",
            "reasoning",
            "parallel_tool_calls",
        ];
        match (dialect.vendor(), self.output_field) {
            (Vendor::Anthropic, _) => {
                Some(("/v1/messages/count_tokens".into(), self.fields.only(MESSAGES).to_bytes()))
            }
            (Vendor::OpenAi, "max_output_tokens") => {
                Some(("/v1/responses/input_tokens".into(), self.fields.only(RESPONSES).to_bytes()))
            }
            (Vendor::OpenAi, _) => None,
            (Vendor::Google, _) => Some(google::count_request(&self.fields, model)),
        }
    }

    /// Takes the vendor's count for the input, with some room: vendors call it an estimate.
    pub(super) fn take_count(&mut self, counted: u64) {
        let with_room = counted.saturating_add(counted / 20).saturating_add(ADDED_TOKENS);
        self.need.input_tokens = self.need.input_tokens.min(with_room);
    }
}

/// A request in which no model speaks, without what the vendor would do outside for it.
pub(super) fn kept_inside(dialect: &dyn Dialect, body: &Bytes) -> Result<Bytes, String> {
    let mut fields = Fields::parse(dialect, body)?;
    known::check_options(dialect.vendor(), &mut fields)?;
    outside::remove_tools(dialect.vendor(), &mut fields)?;
    media::find(&fields, &Price::default())?;
    Ok(if fields.is_changed() { fields.to_bytes() } else { body.clone() })
}

/// The field that the request uses to bound its answer, or the one to add.
fn output_field(dialect: &dyn Dialect, fields: &Fields) -> Result<&'static str, String> {
    let known = dialect.output_fields();
    for name in known {
        if !fields.small(name)?.is_null() {
            return Ok(name);
        }
    }
    Ok(known[0])
}

fn asked_output(dialect: &dyn Dialect, fields: &Fields) -> Result<Option<u64>, String> {
    let mut asked = None;
    for name in dialect.output_fields() {
        match fields.small(name)? {
            Value::Null => {}
            // Two bounds on one answer: which of them counts is the vendor's secret.
            _ if asked.is_some() => return Err(format!("{name}: only one bound on the answer can be set")),
            value => match value.as_u64() {
                Some(tokens) if tokens > 0 => asked = Some(tokens),
                _ => return Err(format!("{name}: must be a number of tokens from 1")),
            },
        }
    }
    Ok(asked)
}

fn asked_choices(vendor: Vendor, fields: &Fields) -> Result<u64, String> {
    let name = if vendor == Vendor::Google { "generationConfig.candidateCount" } else { "n" };
    match fields.small(name)? {
        Value::Null => Ok(1),
        value => value
            .as_u64()
            .filter(|n| (1..=128).contains(n))
            .ok_or_else(|| format!("{name}: must be 1 to 128")),
    }
}

fn asked_thinking(vendor: Vendor, fields: &Fields) -> Result<u64, String> {
    let budget = match vendor {
        // Below zero it is the model's own choice.
        Vendor::Google => fields.small("generationConfig.thinkingConfig")?["thinkingBudget"].clone(),
        Vendor::Anthropic | Vendor::OpenAi => fields.small("thinking")?["budget_tokens"].clone(),
    };
    Ok(budget.as_u64().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Anthropic, Chat, Detail, Responses};

    fn plan(dialect: &dyn Dialect, request: &Value) -> Result<Plan, String> {
        let body = Bytes::from(request.to_string());
        let conversation = dialect.read(&body, Detail::Outline)?;
        let price = crate::PriceTable::built_in().find("gpt-5").unwrap().clone();
        Plan::new(dialect, &conversation, body, &price)
    }

    #[test]
    fn a_request_that_needs_no_change_is_sent_as_it_came() {
        let request = json!({"model": "m", "max_tokens": 10, "messages": []});
        let plan = plan(&Anthropic, &request).unwrap();
        assert_eq!(plan.body(), request.to_string());
        assert_eq!(plan.need.output_tokens, 10);
        assert!(plan.need.input_tokens >= u64::try_from(request.to_string().len()).unwrap());
    }

    #[test]
    fn usage_is_asked_for_where_the_client_did_not() {
        let mut request = json!({"model": "m", "messages": [], "stream": true, "stream_options": {"x": 1}});
        let planned = plan(&Chat, &request).unwrap();
        let sent: Value = serde_json::from_slice(&planned.body()).unwrap();
        assert_eq!(sent["stream_options"], json!({"x": 1, "include_usage": true}));
        assert!(planned.hides_usage);
        request["stream_options"]["include_usage"] = json!(true);
        assert!(!plan(&Chat, &request).unwrap().hides_usage);
        request["stream"] = json!(false);
        request["stream_options"] = Value::Null;
        assert!(!plan(&Chat, &request).unwrap().hides_usage);
    }

    #[test]
    fn the_bound_is_lowered_where_the_request_set_it() {
        let cases: [(&dyn Dialect, Value, &str); 4] = [
            (&Chat, json!({"messages": [], "max_tokens": 100}), "max_tokens"),
            (&Chat, json!({"messages": [], "max_completion_tokens": 100}), "max_completion_tokens"),
            (&Chat, json!({"messages": []}), "max_completion_tokens"),
            (&Responses, json!({"input": "x"}), "max_output_tokens"),
        ];
        for (dialect, request, field) in cases {
            let mut plan = plan(dialect, &request).unwrap();
            plan.lower_output(50);
            let sent: Value = serde_json::from_slice(&plan.body()).unwrap();
            assert_eq!(sent[field], 50, "{request}");
            assert!(field == "max_tokens" || sent["max_tokens"].is_null());
        }
        for wrong in [json!(-1), json!(0), json!("9"), json!(1.5)] {
            assert!(plan(&Anthropic, &json!({"messages": [], "max_tokens": wrong})).is_err(), "{wrong}");
        }
        let both = json!({"messages": [], "max_tokens": 1, "max_completion_tokens": 100_000});
        assert!(plan(&Chat, &both).unwrap_err().contains("only one bound"));
    }

    #[test]
    fn more_answers_and_thinking_are_counted() {
        let several = plan(&Chat, &json!({"messages": [], "max_tokens": 10, "n": 4})).unwrap();
        assert_eq!(several.need.choices, 4);
        let thinking = json!({"messages": [], "max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 5000}});
        assert_eq!(plan(&Anthropic, &thinking).unwrap().need.thinking_tokens, 5000);
    }
}
