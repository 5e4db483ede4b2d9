//! Helpers: an agent sends another one to do a part of the work, with a conversation and a budget of its own.
//!
//! A helper has the tools that its kind names, of those that its sender has; it never has helpers itself. What it does
//! is told like the agent's own steps, with the call that sent it; what its sender hears is its last words.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use sunaba_llm::{Client, ToolDefinition, Usage};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::conversation::Conversation;
use super::guard::Guard;
use super::hands::{Hands, NOT_RUN};
use super::repository::{AgentKind, Skill};
use super::run::Run;
use super::steering::Steering;
use super::{NativeConfig, prompt};
use crate::text::clip;
use crate::tools::{ToolCall, ToolReply, definition};
use crate::{AgentEvent, Ending, EventSink, RunOutcome};

const REPORT_MAX_CHARS: usize = 50_000;
/// What only looks.
const LOOKING: [&str; 4] = ["Read", "Glob", "Grep", "Skill"];

/// Everything that a helper is made of.
pub(super) struct Helpers {
    pub(super) kinds: Vec<AgentKind>,
    pub(super) config: NativeConfig,
    pub(super) client: Client,
    pub(super) model: String,
    /// What the repository tells every agent.
    pub(super) instructions: Option<String>,
    pub(super) guard: Arc<Guard>,
    pub(super) skills: Arc<Vec<Skill>>,
    /// What its sender has.
    pub(super) tools: Vec<&'static str>,
    pub(super) events: Arc<dyn EventSink>,
}

#[derive(Debug, Deserialize)]
struct Input {
    prompt: String,
    subagent_type: String,
}

impl Helpers {
    /// As the model is told of them.
    pub(super) fn definition(&self) -> ToolDefinition {
        let kinds: Vec<String> =
            self.kinds.iter().map(|kind| format!("- {}: {}", kind.name, kind.description)).collect();
        let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name.as_str()).collect();
        let description = format!(
            "Sends a helper to do a part of the work in a conversation of its own, which keeps yours short. It knows \
nothing of what was said here, so its prompt must hold all that it needs, and what it is to report. You get its report, \
and nobody else does. Kinds of helpers:\n{}",
            kinds.join("\n")
        );
        let properties = json!({
            "description": { "type": "string", "description": "What it is for, in three to five words." },
            "prompt": { "type": "string", "description": "What it is to do and to report." },
            "subagent_type": { "type": "string", "enum": names, "description": "Which kind." },
        });
        definition("Task", &description, properties, &["description", "prompt", "subagent_type"])
    }

    /// Whether a call sends a helper that changes nothing, so that it may run beside others.
    pub(super) fn only_looks(&self, call: &ToolCall) -> bool {
        let name = call.input.get("subagent_type").and_then(|name| name.as_str());
        let kind = self.kinds.iter().find(|kind| Some(kind.name.as_str()) == name);
        kind.is_some_and(|kind| self.tools_of(kind).iter().all(|tool| LOOKING.contains(tool)))
    }

    fn tools_of(&self, kind: &AgentKind) -> Vec<&'static str> {
        let wanted = |tool: &&&'static str| match &kind.tools {
            Some(tools) => tools.iter().any(|name| name == **tool),
            None => true,
        };
        self.tools.iter().filter(|tool| **tool != "Task").filter(wanted).copied().collect()
    }

    /// Sends one and waits for its report; it ends soon after `halt` is cancelled.
    // Not an async function: a helper is a run in a run, and only a named type ends that chain.
    pub(super) fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        halt: &'a CancellationToken,
    ) -> BoxFuture<'a, ToolReply> {
        let input: Input = match serde_json::from_value(call.input.clone()) {
            Ok(input) => input,
            Err(error) => return ready(format!("the arguments of Task do not fit: {error}")),
        };
        let Some(kind) = self.kinds.iter().find(|kind| kind.name == input.subagent_type) else {
            let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name.as_str()).collect();
            let words =
                format!("there is no helper named {}; there are {}", input.subagent_type, names.join(", "));
            return ready(words);
        };
        Box::pin(async move {
            let run = self.begin(kind, &call.id, halt);
            reply(run.until_the_end(&input.prompt).await)
        })
    }

    fn begin(&self, kind: &AgentKind, tool_use_id: &str, halt: &CancellationToken) -> Run {
        let parent: Arc<dyn EventSink> = Arc::clone(&self.events);
        let events: Arc<dyn EventSink> =
            Arc::new(Inside { parent, parent_tool_use_id: tool_use_id.to_owned() });
        // Nobody speaks to a helper: its inbox is closed from the start.
        let (_, inbox) = mpsc::channel(1);
        let limits = self.config.subagents;
        Run {
            system: prompt::of_helper(&kind.prompt, self.instructions.as_deref(), &self.guard.cwd),
            hands: Hands::new(
                self.tools_of(kind),
                Arc::clone(&self.guard),
                Arc::clone(&self.skills),
                None,
                Arc::clone(&events),
                self.config.command_grace,
            ),
            thinking: self.config.thinking,
            config: self.config.clone(),
            client: self.client.clone(),
            session_id: Uuid::new_v4().to_string(),
            model: kind.model.clone().unwrap_or_else(|| self.model.clone()),
            max_turns: limits.max_turns,
            max_total_tokens: Some(limits.max_tokens),
            events,
            steering: Steering::new(inbox, halt.child_token()),
            conversation: Conversation::default(),
            file: None,
            turns: 0,
            usage: Usage::default(),
            final_output: String::new(),
        }
    }
}

fn ready<'a>(reason: String) -> BoxFuture<'a, ToolReply> {
    Box::pin(std::future::ready(ToolReply::error(reason)))
}

/// What the sender hears.
fn reply(outcome: RunOutcome) -> ToolReply {
    let report = clip(outcome.final_output.trim(), REPORT_MAX_CHARS);
    let trouble = match &outcome.ending {
        Ending::Completed { .. } if report.is_empty() => Some("the helper ended without a word".to_owned()),
        Ending::Completed { .. } => None,
        Ending::Cancelled if outcome.turns == 0 => Some(NOT_RUN.to_owned()),
        Ending::Cancelled | Ending::Interrupted => Some("[interrupted] the helper was ended".to_owned()),
        Ending::MaxTurns => Some(format!("the helper was not done after {} turns", outcome.turns)),
        Ending::Failed(error) => Some(format!("the helper could not go on: {}", error.message)),
    };
    let mut reply = match trouble {
        None => ToolReply::ok(report),
        Some(trouble) if report.is_empty() => ToolReply::error(trouble),
        Some(trouble) => ToolReply::error(format!("{trouble}. Its last words:\n{report}")),
    };
    reply.used = Some(outcome.usage);
    reply
}

/// Tells a helper's steps as parts of the call that sent it.
struct Inside {
    parent: Arc<dyn EventSink>,
    parent_tool_use_id: String,
}

impl EventSink for Inside {
    fn emit(&self, event: AgentEvent) {
        match event {
            // The first stands in the call; the second is the call's result, and no end of the agent's own work.
            AgentEvent::UserMessage { .. } | AgentEvent::Error { .. } => {}
            event => self.parent.emit(AgentEvent::Inside {
                event: Box::new(event),
                parent_tool_use_id: self.parent_tool_use_id.clone(),
            }),
        }
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        self.parent.settled()
    }

    fn quiet(&self) -> BoxFuture<'_, ()> {
        self.parent.quiet()
    }
}
