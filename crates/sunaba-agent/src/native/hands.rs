//! Does what one answer of the model asks for.
//!
//! Calls that only look run at once; any other call runs alone, after those before it and before those after it. So
//! a file that is read after it was written is read as it was written, and results stand in the order of the calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use serde_json::json;
use sunaba_llm::{CacheControl, ToolDefinition};
use tokio_util::sync::CancellationToken;

use super::guard::{self, Guard, Verdict};
use super::helpers::Helpers;
use super::repository::Skill;
use crate::tools::{ToolCall, ToolReply, Toolbox, definition};
use crate::{AgentEvent, EventSink};

/// Most calls that run at once.
const AT_ONCE_MAX: usize = 8;
pub(super) const NOT_RUN: &str = "[interrupted before it ran]";
const UNUSABLE_INPUT: &str = "the arguments are not a JSON object; the answer was probably cut off";

/// The tools of a run, and whoever is told of their work.
pub(super) struct Hands {
    tools: Toolbox,
    guard: Arc<Guard>,
    skills: Arc<Vec<Skill>>,
    helpers: Option<Helpers>,
    offered: Vec<ToolDefinition>,
    events: Arc<dyn EventSink>,
}

/// What one answer asks for.
pub(super) struct Batch<'a> {
    pub(super) turn: u32,
    pub(super) calls: &'a [ToolCall],
    /// Ids of calls whose arguments came in pieces that do not fit together.
    pub(super) unusable: &'a [String],
}

impl Hands {
    /// With these tools. `Skill` is among them only if there is a skill, and `Task` only if there are helpers.
    pub(super) fn new(
        names: Vec<&'static str>,
        guard: Arc<Guard>,
        skills: Arc<Vec<Skill>>,
        helpers: Option<Helpers>,
        events: Arc<dyn EventSink>,
        command_grace: Duration,
    ) -> Self {
        let mut offered = Toolbox::definitions();
        offered.extend(helpers.as_ref().map(Helpers::definition));
        offered.extend((!skills.is_empty()).then(|| skill_definition(&skills)));
        offered.retain(|tool| names.contains(&tool.name.as_str()));
        // A cached prefix ends with the last of them.
        if let Some(last) = offered.last_mut() {
            last.cache_control = Some(CacheControl::ephemeral());
        }
        let tools = Toolbox::new(guard.cwd.clone(), Arc::clone(&events), command_grace);
        Self { tools, guard, skills, helpers, offered, events }
    }

    /// What the model is offered.
    pub(super) fn offered(&self) -> &[ToolDefinition] {
        &self.offered
    }

    /// Runs all of it; one reply for each call, in their order. Ends soon after `halt` is cancelled: what runs is
    /// ended, and what has not begun does not begin.
    pub(super) async fn run(&self, batch: &Batch<'_>, halt: &CancellationToken) -> Vec<ToolReply> {
        let mut replies = Vec::with_capacity(batch.calls.len());
        for together in batch.calls.chunk_by(|one, next| self.only_looks(one) && self.only_looks(next)) {
            let mut running: FuturesOrdered<BoxFuture<'_, ToolReply>> = FuturesOrdered::new();
            for call in together {
                if running.len() == AT_ONCE_MAX {
                    replies.extend(running.next().await);
                }
                running.push_back(Box::pin(self.run_one(batch, call, halt)));
            }
            while let Some(reply) = running.next().await {
                replies.push(reply);
            }
        }
        replies
    }

    fn only_looks(&self, call: &ToolCall) -> bool {
        match call.name.as_str() {
            "Read" | "Glob" | "Grep" | "Skill" => true,
            "Task" => self.helpers.as_ref().is_some_and(|helpers| helpers.only_looks(call)),
            _ => false,
        }
    }

    async fn run_one(&self, batch: &Batch<'_>, call: &ToolCall, halt: &CancellationToken) -> ToolReply {
        tracing::debug!(turn = batch.turn, tool = %call.name, "tool call");
        let began = Instant::now();
        let (ran, reply) = if halt.is_cancelled() {
            (None, ToolReply::error(NOT_RUN))
        } else if batch.unusable.contains(&call.id) {
            (None, ToolReply::error(UNUSABLE_INPUT))
        } else {
            self.run_if_allowed(call, halt).await
        };
        let call = ran.as_ref().unwrap_or(call);
        if let Some(edit) = &reply.edit {
            self.events.emit(edit.event(batch.turn, &call.id));
        }
        self.events.emit(AgentEvent::tool_completed(batch.turn, call, &reply, began.elapsed()));
        self.events.emit(AgentEvent::tool_result(batch.turn, call, &reply));
        reply
    }

    /// The reply, and the call as it ran when that is not as it was asked for.
    async fn run_if_allowed(
        &self,
        call: &ToolCall,
        halt: &CancellationToken,
    ) -> (Option<ToolCall>, ToolReply) {
        if !self.offered.iter().any(|tool| tool.name == call.name) {
            let names: Vec<&str> = self.offered.iter().map(|tool| tool.name.as_str()).collect();
            let words = format!("there is no tool named {}; there are {}", call.name, names.join(", "));
            return (None, ToolReply::error(words));
        }
        match self.guard.judge(call, halt).await {
            Verdict::Free => (None, self.perform(call, halt).await),
            Verdict::Changed(instead) => {
                let reply = guard::with_note(self.perform(&instead, halt).await, &instead);
                (Some(instead), reply)
            }
            Verdict::Refused(reply) => (None, reply),
        }
    }

    async fn perform(&self, call: &ToolCall, halt: &CancellationToken) -> ToolReply {
        if !self.only_looks(call) {
            tokio::select! {
                () = self.events.settled() => {}
                () = halt.cancelled() => {}
            }
        }
        match (call.name.as_str(), &self.helpers) {
            ("Task", Some(helpers)) => helpers.run(call, halt).await,
            ("Skill", _) => self.take_up_skill(call),
            _ => self.tools.run(call, halt).await,
        }
    }

    fn take_up_skill(&self, call: &ToolCall) -> ToolReply {
        let name = call.input.get("skill").and_then(|name| name.as_str()).unwrap_or_default();
        let Some(skill) = self.skills.iter().find(|skill| skill.name == name) else {
            let names: Vec<&str> = self.skills.iter().map(|skill| skill.name.as_str()).collect();
            return ToolReply::error(format!(
                "there is no skill named {name}; there are {}",
                names.join(", ")
            ));
        };
        skill.body().map_or_else(|| ToolReply::error(format!("{name} can no longer be read")), ToolReply::ok)
    }
}

fn skill_definition(skills: &[Skill]) -> ToolDefinition {
    let list: Vec<String> =
        skills.iter().map(|skill| format!("- {}: {}", skill.name, skill.description)).collect();
    let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
    let description = format!(
        "Gives you what this repository's people wrote down on how to do a thing. Use it before you begin with that \
thing, and follow it. Skills:\n{}",
        list.join("\n")
    );
    let properties = json!({ "skill": { "type": "string", "enum": names, "description": "Which skill." } });
    definition("Skill", &description, properties, &["skill"])
}
