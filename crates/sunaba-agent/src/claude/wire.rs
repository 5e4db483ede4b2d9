//! The CLI's messages: one JSON object a line, in both directions.
//!
//! Only what is used is typed. A message of a kind that is not known here is no error: newer versions say more.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Answer;

/// A line that the CLI wrote.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    System(Map<String, Value>),
    Assistant(Said),
    User(Said),
    StreamEvent {
        event: StreamEvent,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
    },
    Result(TurnResult),
    ControlRequest {
        request_id: String,
        request: Request,
    },
    ControlResponse {
        response: Response,
    },
    ControlCancelRequest {
        request_id: String,
    },
    #[serde(other)]
    Other,
}

/// A message of the conversation.
#[derive(Debug, Deserialize)]
pub(super) struct Said {
    pub(super) message: Body,
    /// The call of the helper that said it.
    #[serde(default)]
    pub(super) parent_tool_use_id: Option<String>,
    #[serde(default)]
    pub(super) uuid: String,
    /// Something that we said, told back when it entered the conversation.
    #[serde(default, rename = "isReplay")]
    pub(super) is_replay: bool,
    #[serde(default)]
    pub(super) tool_use_result: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct Body {
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) content: Content,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Blocks(Vec<Block>),
    Text(String),
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl Content {
    pub(super) fn blocks(self) -> Vec<Block> {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Text(text) => vec![Block::Text { text }],
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Value,
        #[serde(default)]
        is_error: Option<bool>,
    },
    #[serde(other)]
    Other,
}

/// The pieces of a model's answer that are used: its beginning and its end.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StreamEvent {
    MessageStart {
        message: sunaba_llm::MessageHead,
    },
    ContentBlockStart {},
    MessageDelta {
        #[serde(default)]
        delta: Delta,
        #[serde(default)]
        usage: sunaba_llm::UsageReport,
    },
    MessageStop {},
    #[serde(other)]
    Other,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
}

/// The end of a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TurnResult {
    pub(super) subtype: String,
    pub(super) is_error: bool,
    pub(super) api_error_status: Option<u16>,
    pub(super) result: String,
    pub(super) stop_reason: Option<String>,
    pub(super) terminal_reason: Option<String>,
    pub(super) errors: Vec<String>,
    /// Of the whole process so far, helpers included.
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: std::collections::BTreeMap<String, ModelUsage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelUsage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
}

/// What the CLI wants to know.
#[derive(Debug, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum Request {
    HookCallback {
        input: HookInput,
    },
    CanUseTool {
        tool_name: String,
        #[serde(default)]
        input: Value,
        #[serde(default)]
        tool_use_id: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct HookInput {
    pub(super) hook_event_name: String,
    #[serde(default)]
    pub(super) tool_name: String,
    #[serde(default)]
    pub(super) tool_input: Value,
    #[serde(default)]
    pub(super) tool_use_id: String,
    #[serde(default)]
    pub(super) duration_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Response {
    pub(super) request_id: String,
    #[serde(default)]
    pub(super) subtype: String,
    #[serde(default)]
    pub(super) error: Option<String>,
}

pub(super) const INITIALIZE: &str = "initialize";
/// How long the CLI waits for the answer to a hook; each is answered at once.
const HOOK_TIMEOUT_SECONDS: u32 = 60;

/// The first thing that the CLI is told: we want to hear of every tool.
pub(super) fn initialize() -> Value {
    let hook =
        |id: &str| json!([{"matcher": null, "hookCallbackIds": [id], "timeout": HOOK_TIMEOUT_SECONDS}]);
    let hooks = json!({"PreToolUse": hook("before"), "PostToolUse": hook("after")});
    control(INITIALIZE, json!({"subtype": "initialize", "hooks": hooks}))
}

pub(super) fn interrupt(request_id: &str) -> Value {
    control(request_id, json!({"subtype": "interrupt"}))
}

fn control(request_id: &str, request: Value) -> Value {
    json!({"type": "control_request", "request_id": request_id, "request": request})
}

/// Something said to the model; `uuid` comes back with it when it has entered the conversation.
pub(super) fn user(uuid: &str, texts: &[String]) -> Value {
    // The CLI takes a last block that begins with a slash for a command of its own. It looks at nothing else, and
    // drops one that is blank, so that the model is told what was said and no more.
    let is_command = texts.last().is_some_and(|text| text.trim_start().starts_with('/'));
    let texts = texts.iter().map(String::as_str).chain(is_command.then_some("\n"));
    let blocks: Vec<_> = texts.map(|text| json!({"type": "text", "text": text})).collect();
    let message = json!({"role": "user", "content": blocks});
    json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": "default", "uuid": uuid})
}

/// A hook has nothing to add.
pub(super) fn go_on(request_id: &str) -> Value {
    answer(request_id, json!({}))
}

pub(super) fn permission(request_id: &str, answer_given: Answer, asked: Value) -> Value {
    let given = match answer_given {
        Answer::Allow { instead } => {
            json!({"behavior": "allow", "updatedInput": instead.unwrap_or(asked)})
        }
        Answer::Deny { message } => json!({"behavior": "deny", "message": message}),
    };
    answer(request_id, given)
}

fn answer(request_id: &str, given: Value) -> Value {
    let response = json!({"subtype": "success", "request_id": request_id, "response": given});
    json!({"type": "control_response", "response": response})
}

/// A hook does not let the tool run.
pub(super) fn not_offered(request_id: &str, tool: &str) -> Value {
    let reason = format!("{tool} is not among the tools of this run");
    let output = json!({
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
    });
    answer(request_id, json!({"hookSpecificOutput": output}))
}

pub(super) fn refusal(request_id: &str) -> Value {
    let response = json!({"subtype": "error", "request_id": request_id, "error": "not known here"});
    json!({"type": "control_response", "response": response})
}
