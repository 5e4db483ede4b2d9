//! The tool calls that are under way, told as they begin, change files and end.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sunaba_llm::{Usage, UsageReport};

use super::wire::HookInput;
use crate::event::{Completed, Invoked};
use crate::text::clip;
use crate::tools::{Before, FileEdit, ToolCall, ToolReply, shown};
use crate::{AgentEvent, EventSink};

const WORDS_MAX_CHARS: usize = 5_000;

#[derive(Debug)]
struct Open {
    call: ToolCall,
    turn: u32,
    began: Instant,
    /// As the CLI measured it.
    took: Option<Duration>,
    file: Option<(PathBuf, Before)>,
}

/// What a tool call is, as it is told.
enum Kind {
    Tool,
    Subagent,
    Skill,
}

pub(super) struct Calls {
    cwd: PathBuf,
    events: Arc<dyn EventSink>,
    open: HashMap<String, Open>,
}

impl Calls {
    pub(super) fn new(cwd: PathBuf, events: Arc<dyn EventSink>) -> Self {
        Self { cwd, events, open: HashMap::new() }
    }

    /// The model asks for a tool. Told once: the hook may come before the message or after it.
    pub(super) fn begin(&mut self, turn: u32, call: ToolCall) {
        if self.open.contains_key(&call.id) {
            return;
        }
        self.events.emit(invoked(turn, &call));
        let open = Open { turn, began: Instant::now(), took: None, file: None, call };
        self.open.insert(open.call.id.clone(), open);
    }

    /// The tool is about to run.
    pub(super) async fn before(&mut self, turn: u32, hook: HookInput) {
        let HookInput { tool_name, tool_input, tool_use_id, .. } = hook;
        let file = match edited_path(&tool_name, &tool_input) {
            Some(path) => {
                let path = self.cwd.join(path);
                Before::look(&path).await.map(|before| (path, before))
            }
            None => None,
        };
        self.begin(turn, ToolCall { id: tool_use_id.clone(), name: tool_name, input: tool_input });
        if let Some(open) = self.open.get_mut(&tool_use_id) {
            open.began = Instant::now();
            open.file = file;
        }
    }

    /// The tool has run.
    pub(super) async fn after(&mut self, hook: HookInput) {
        let Some(open) = self.open.get_mut(&hook.tool_use_id) else { return };
        // Somebody who was asked may have allowed something else than what the model wanted.
        open.call.input = hook.tool_input;
        open.took = hook.duration_ms.map(Duration::from_millis);
        let Some((path, before)) = open.file.take() else { return };
        let Some(Before::Text(after)) = Before::look(&path).await else { return };
        if let Some(edit) = FileEdit::between(shown(&self.cwd, &path), before.text(), &after) {
            self.events.emit(edit.event(open.turn, &hook.tool_use_id));
        }
    }

    /// What the model is told of the tool's work.
    pub(super) fn end(&mut self, tool_use_id: &str, reply: &ToolReply, details: &Value) {
        let Some(open) = self.open.remove(tool_use_id) else { return };
        let duration = open.took.unwrap_or_else(|| open.began.elapsed());
        let completed = Completed::new(open.turn, &open.call, reply, duration);
        self.events.emit(completed_event(&open.call, completed, reply, details));
        self.events.emit(AgentEvent::tool_result(open.turn, &open.call, reply));
    }

    /// Nothing of what is under way will end by itself.
    pub(super) fn give_up(&mut self, reason: &str) {
        let mut ids: Vec<_> = self.open.keys().cloned().collect();
        ids.sort_unstable();
        for id in ids {
            self.end(&id, &ToolReply::error(reason), &Value::Null);
        }
    }
}

fn kind(tool: &str) -> Kind {
    match tool {
        "Task" | "Agent" => Kind::Subagent,
        "Skill" => Kind::Skill,
        _ => Kind::Tool,
    }
}

fn invoked(turn: u32, call: &ToolCall) -> AgentEvent {
    match kind(&call.name) {
        Kind::Tool => AgentEvent::tool_use(turn, call),
        Kind::Skill => AgentEvent::SkillInvoked {
            call: Invoked::new(turn, call, "skill"),
            skill_name: word(call, "skill"),
        },
        Kind::Subagent => AgentEvent::SubagentInvoked {
            call: Invoked::new(turn, call, "subagent"),
            subagent_type: word(call, "subagent_type"),
            subagent_description: word(call, "description"),
            subagent_prompt: word(call, "prompt"),
        },
    }
}

fn completed_event(call: &ToolCall, completed: Completed, reply: &ToolReply, details: &Value) -> AgentEvent {
    match kind(&call.name) {
        Kind::Tool => AgentEvent::ToolCompleted(completed),
        Kind::Skill => AgentEvent::SkillCompleted { call: completed, skill_name: word(call, "skill") },
        Kind::Subagent => AgentEvent::SubagentCompleted {
            call: completed,
            subagent_type: word(call, "subagent_type"),
            result: clip(&reply.content, WORDS_MAX_CHARS),
            usage: usage(details),
            cost_usd: None,
        },
    }
}

/// What a helper's last call used: all that the CLI tells of it.
fn usage(details: &Value) -> Option<Usage> {
    let report: UsageReport = serde_json::from_value(details.get("usage")?.clone()).ok()?;
    let mut usage = Usage::default();
    usage.apply(&report);
    Some(usage)
}

fn word(call: &ToolCall, name: &str) -> String {
    clip(call.input.get(name).and_then(Value::as_str).unwrap_or_default(), WORDS_MAX_CHARS)
}

fn edited_path<'a>(tool: &str, input: &'a Value) -> Option<&'a str> {
    match tool {
        "Write" | "Edit" | "MultiEdit" => input.get("file_path")?.as_str(),
        "NotebookEdit" => input.get("notebook_path")?.as_str(),
        _ => None,
    }
}
