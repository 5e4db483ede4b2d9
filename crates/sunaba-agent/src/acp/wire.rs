//! The protocol's messages: JSON-RPC, one object a line, in both directions.
//!
//! Only what is used is typed. What is not known here is no error: agents add to the protocol as they like.

use serde::Deserialize;
use serde_json::{Value, json};

/// The version that is spoken here.
const PROTOCOL_VERSION: u32 = 1;
/// What JSON-RPC says of a method that nobody has.
const METHOD_NOT_FOUND: i64 = -32601;
/// What the protocol says when the agent wants somebody to log in.
pub(super) const AUTH_REQUIRED: i64 = -32000;
/// What a program of ours says when the agent that it is to drive is not there.
pub(super) const NOT_INSTALLED: i64 = -32001;

/// A line that the agent wrote.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Option<Refusal>,
}

/// Why a request failed.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Refusal {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Value,
}

impl Refusal {
    /// In words, with whatever the agent adds to them.
    pub(super) fn words(&self) -> String {
        let more = match &self.data {
            Value::Null => return self.message.clone(),
            Value::String(text) => text.clone(),
            Value::Object(fields) => fields
                .get("message")
                .or_else(|| fields.get("details"))
                .and_then(Value::as_str)
                .map_or_else(|| self.data.to_string(), str::to_owned),
            other => other.to_string(),
        };
        format!("{}: {more}", self.message)
    }
}

/// What a line means.
#[derive(Debug)]
pub(super) enum Heard {
    Update(Update),
    Asked { id: Value, method: String, params: Value },
    Answered { id: u64, answer: Result<Value, Refusal> },
    Other,
}

impl Heard {
    pub(super) fn read(bytes: &[u8]) -> serde_json::Result<Self> {
        let line: Line = serde_json::from_slice(bytes)?;
        Ok(match (line.method, line.id) {
            (Some(method), None) if method == "session/update" => {
                Self::Update(serde_json::from_value::<Notice>(line.params)?.update)
            }
            (Some(_), None) => Self::Other,
            (Some(method), Some(id)) => Self::Asked { id, method, params: line.params },
            (None, Some(id)) => match id.as_u64() {
                Some(id) => Self::Answered { id, answer: line.error.map_or(Ok(line.result), Err) },
                None => Self::Other,
            },
            (None, None) => Self::Other,
        })
    }
}

#[derive(Debug, Deserialize)]
struct Notice {
    update: Update,
}

/// What the agent does.
#[derive(Debug, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(super) enum Update {
    AgentMessageChunk(Chunk),
    AgentThoughtChunk(Chunk),
    ToolCall(ToolNews),
    #[serde(rename = "tool_call_update")]
    ToolChanged(ToolNews),
    Plan {
        #[serde(default)]
        entries: Value,
    },
    #[serde(rename = "usage_update")]
    Counted {},
    /// The protocol has no word for it: a call to the model failed and is made once more.
    #[serde(rename = "_call_failed")]
    CallFailed {
        #[serde(default)]
        error: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    pub(super) message_id: Option<String>,
}

impl Chunk {
    pub(super) fn text(&self) -> &str {
        self.content.get("text").and_then(Value::as_str).unwrap_or_default()
    }
}

/// What is new about a tool call; the first news of it has most of the fields.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ToolNews {
    pub(super) tool_call_id: String,
    pub(super) title: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) status: Option<String>,
    pub(super) content: Option<Vec<Value>>,
    pub(super) locations: Option<Vec<Location>>,
    pub(super) raw_input: Option<Value>,
    pub(super) raw_output: Option<Value>,
    #[serde(rename = "_meta")]
    pub(super) meta: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Location {
    #[serde(default)]
    pub(super) path: String,
}

/// The agent asks whether it may.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Permission {
    pub(super) tool_call: ToolNews,
    #[serde(default)]
    options: Vec<Choice>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Choice {
    option_id: String,
    #[serde(default)]
    kind: String,
}

impl Permission {
    /// The answer that says yes or no for this once, or for longer when nothing less is offered.
    pub(super) fn choice(&self, allowed: bool) -> Option<String> {
        let wanted = if allowed { ["allow_once", "allow_always"] } else { ["reject_once", "reject_always"] };
        wanted
            .iter()
            .find_map(|kind| self.options.iter().find(|choice| choice.kind == *kind))
            .map(|choice| choice.option_id.clone())
    }
}

/// What the agent says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Introduction {
    pub(super) protocol_version: u32,
    agent_capabilities: Offers,
    pub(super) agent_info: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Offers {
    load_session: bool,
}

impl Introduction {
    pub(super) fn speaks_our_version(&self) -> bool {
        self.protocol_version == PROTOCOL_VERSION
    }

    pub(super) fn can_load(&self) -> bool {
        self.agent_capabilities.load_session
    }
}

/// What the agent says of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Session {
    pub(super) session_id: String,
}

/// The end of a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TurnEnd {
    pub(super) stop_reason: String,
    pub(super) usage: Option<Used>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Used {
    input_tokens: u64,
    output_tokens: u64,
    cached_read_tokens: u64,
    cached_write_tokens: u64,
}

impl Used {
    pub(super) fn usage(&self) -> crate::Usage {
        crate::Usage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_tokens: self.cached_read_tokens,
            cache_write_tokens: self.cached_write_tokens,
        }
    }
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(super) fn initialize() -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        // Files and commands are the agent's own business: it is in the sandbox, as we are. Some agents tell what a
        // command writes while it runs only to those who say that they can show it.
        "clientCapabilities": {
            "fs": {"readTextFile": false, "writeTextFile": false},
            "terminal": false,
            "_meta": {"terminal_output": true},
        },
        "clientInfo": {"name": "sunaba", "version": env!("CARGO_PKG_VERSION")},
    })
}

pub(super) fn prompt(session: &str, texts: &[String]) -> Value {
    let blocks: Vec<_> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    json!({"sessionId": session, "prompt": blocks})
}

pub(super) fn cancel(session: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
}

pub(super) fn chosen(id: &Value, option: Option<String>) -> Value {
    let outcome = match option {
        Some(option) => json!({"outcome": "selected", "optionId": option}),
        None => json!({"outcome": "cancelled"}),
    };
    result(id, &json!({ "outcome": outcome }))
}

pub(super) fn result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(super) fn refusal(id: &Value, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": METHOD_NOT_FOUND, "message": message}})
}
