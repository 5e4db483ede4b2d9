//! The keys of a script.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// One turn: what the model says to one request.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Turn {
    /// What it thinks first.
    pub(crate) thinking: Option<String>,
    /// What it says. `{{prompt}}` is the first thing the user said, `{{last_message}}` the last.
    pub(crate) text: Option<String>,
    /// The tools it asks for.
    pub(crate) tools: Vec<Tool>,
    /// Why it stops, when not for the usual reason.
    pub(crate) stop_reason: Option<String>,
    /// The tokens it claims; estimated when left out.
    pub(crate) usage: Option<UsageSpec>,
    /// How long it waits before its first byte.
    pub(crate) delay_ms: u64,
    /// How long it waits between two pieces of its answer.
    pub(crate) chunk_delay_ms: u64,
    /// The error it answers with instead.
    pub(crate) error: Option<ErrorSpec>,
    /// Makes this a turn beside the main line, for requests that match.
    pub(crate) when: Option<When>,
    /// What the request must hold, or the call fails.
    pub(crate) expect: Vec<Expectation>,
}

/// Token counts that a turn claims.
#[derive(Debug, Clone, Copy, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UsageSpec {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cache_read_tokens: u64,
    pub(crate) cache_write_tokens: u64,
}

/// An error in the vendor's shape.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorSpec {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The vendor's name for it, for example `overloaded_error`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// What it says.
    #[serde(default = "default_error_message")]
    pub(crate) message: String,
    /// How often, before the rest of the turn is played; for ever when left out.
    pub(crate) times: Option<u32>,
}

fn default_error_message() -> String {
    "scripted error".to_owned()
}

/// Which requests a turn is for. Everything that is named must hold.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct When {
    pub(crate) system_contains: Option<String>,
    pub(crate) system_not_contains: Option<String>,
    pub(crate) last_user_contains: Option<String>,
    pub(crate) tool_result_contains: Option<String>,
    pub(crate) request_contains: Option<String>,
    pub(crate) model_contains: Option<String>,
    /// `true`: the request offers no tool; `false`: it offers some.
    pub(crate) no_tools: Option<bool>,
    /// How often in one conversation; without end when left out.
    pub(crate) times: Option<u32>,
}

impl When {
    /// Whether it would match every request.
    pub(crate) fn is_empty(&self) -> bool {
        let texts = [
            &self.system_contains,
            &self.system_not_contains,
            &self.last_user_contains,
            &self.tool_result_contains,
            &self.request_contains,
            &self.model_contains,
        ];
        texts.iter().all(|text| text.is_none()) && self.no_tools.is_none()
    }
}

/// Something that the request must hold.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the names are the script's keys")]
pub(crate) enum Expectation {
    SystemContains(String),
    #[serde(alias = "contains")]
    RequestContains(String),
    #[serde(alias = "not_contains")]
    RequestNotContains(String),
    LastUserContains(String),
    LastUserNotContains(String),
    ToolResultContains(String),
    ToolResultNotContains(String),
}

/// A tool call in words of our own, rendered into the tool that the request offers.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tool {
    Shell(#[serde(deserialize_with = "text_or_map")] Shell),
    Write(Write),
    Edit(Edit),
    Read(#[serde(deserialize_with = "text_or_map")] Read),
    Glob(#[serde(deserialize_with = "text_or_map")] Search),
    Grep(#[serde(deserialize_with = "text_or_map")] Search),
    /// A tool by its own name, with its own input.
    Call(Call),
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shell {
    pub(crate) command: String,
    pub(crate) timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Write {
    pub(crate) path: String,
    pub(crate) content: String,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    pub(crate) path: String,
    pub(crate) old: String,
    pub(crate) new: String,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Read {
    pub(crate) path: String,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    pub(crate) pattern: String,
    pub(crate) path: Option<String>,
}

#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) input: serde_json::Value,
}

impl From<String> for Shell {
    fn from(command: String) -> Self {
        Self { command, timeout_ms: None }
    }
}

impl From<String> for Read {
    fn from(path: String) -> Self {
        Self { path }
    }
}

impl From<String> for Search {
    fn from(pattern: String) -> Self {
        Self { pattern, path: None }
    }
}

/// Takes `shell: ls` as well as `shell: {command: ls}`, and keeps the error of whichever was meant.
fn text_or_map<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + From<String>,
{
    struct Either<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de> + From<String>> Visitor<'de> for Either<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a mapping")
        }
        fn visit_str<E>(self, text: &str) -> Result<T, E> {
            Ok(T::from(text.to_owned()))
        }
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }
    deserializer.deserialize_any(Either(PhantomData))
}
