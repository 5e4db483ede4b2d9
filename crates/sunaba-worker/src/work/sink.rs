//! Takes the agent's events into the report.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use sunaba_agent::{AgentEvent, Completed, EventSink, Invoked};
use sunaba_types::Source;

use super::courier::Courier;
use super::quiet;
use super::report::Reporter;
use super::steps::{Done, Steps};

/// Of a tool's name in the worker's own output; the model may have made it up.
const TOOL_MAX_CHARS: usize = 64;
/// Tools that change no file, by the names that runtimes give them: after them nothing is looked for.
const ONLY_LOOK: &[&str] = &[
    "Read",
    "Glob",
    "Grep",
    "LS",
    "Skill",
    "TodoWrite",
    "TodoRead",
    "WebFetch",
    "WebSearch",
    "NotebookRead",
];

/// The agent's side of the report.
#[derive(Debug)]
pub(super) struct Sink {
    reporter: Reporter,
    waiting: Arc<AtomicBool>,
    /// The agent's last error. The server ends the attempt when it hears it, so it is told only
    /// after the work done so far is safe.
    held_back: Mutex<Vec<AgentEvent>>,
    steps: Arc<Steps>,
    /// The files that the runtime itself says the tool which is about to be done changed: the steps do not tell
    /// them again.
    edits: Mutex<Vec<String>>,
    courier: Courier,
    /// Turns that earlier runs in this sandbox made: every turn of a sandbox has its own number.
    turns_before: AtomicU32,
}

impl Sink {
    pub(super) fn new(
        reporter: Reporter,
        waiting: Arc<AtomicBool>,
        steps: Arc<Steps>,
        courier: Courier,
    ) -> Self {
        let (held_back, edits, turns_before) = (Mutex::default(), Mutex::default(), AtomicU32::new(0));
        Self { reporter, waiting, held_back, steps, edits, courier, turns_before }
    }

    /// From now on this conversation is meant.
    pub(super) fn about(&self, session_id: &str) {
        self.courier.about(session_id);
    }

    /// A run ended after so many turns of its own; gives how many there were in all.
    pub(super) fn run_ended(&self, turns: u32) -> u32 {
        self.turns_before.fetch_add(turns, Ordering::Relaxed) + turns
    }

    /// Tells what was held back.
    pub(super) fn release(&self) {
        self.take_held_back().iter().for_each(|event| self.tell(event));
    }

    /// What was held back, to be told with the end.
    pub(super) fn take_held_back(&self) -> Vec<AgentEvent> {
        std::mem::take(&mut *self.held_back.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was held back is told in another way.
    pub(super) fn forget(&self) {
        self.held_back.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn tell(&self, event: &AgentEvent) {
        match event {
            AgentEvent::ToolUse(Invoked { tool, turn, .. }) => {
                let tool: String = self.reporter.without_token(tool).chars().take(TOOL_MAX_CHARS).collect();
                tracing::info!(turn, tool, "the agent uses a tool");
            }
            AgentEvent::StreamError { turn, retrying, .. } => {
                tracing::warn!(turn, retrying, "a model call failed");
            }
            AgentEvent::Error { error_class, phase, .. } => {
                tracing::warn!(class = error_class.as_str(), phase, "the agent gave up");
            }
            _ => {}
        }
        let mut payload = event.payload();
        let before = self.turns_before.load(Ordering::Relaxed);
        if let Some(turn) = payload.get("turn").and_then(serde_json::Value::as_u64) {
            payload.insert("turn".to_owned(), (turn + u64::from(before)).into());
            if grows(event) {
                self.courier.grown(before.saturating_add(u32::try_from(turn).unwrap_or(u32::MAX)));
            }
        }
        let event_id = self.reporter.emit(event.event_type(), Source::Agent, payload);
        if let Some(done) = completed(event).filter(|done| !ONLY_LOOK.contains(&done.tool.as_str())) {
            let edits = std::mem::take(&mut *self.edits.lock().unwrap_or_else(PoisonError::into_inner));
            let (turn, tool_use_id) = (done.turn + before, Some(done.tool_use_id.clone()));
            self.steps.look(Done { turn, tool_use_id, event_id: Some(event_id), edits });
        }
    }
}

/// Whether the conversation has grown by a step when this is told.
fn grows(event: &AgentEvent) -> bool {
    matches!(
        event,
        AgentEvent::UserMessage { .. } | AgentEvent::AssistantMessage { .. } | AgentEvent::ToolCompleted(_)
    )
}

impl EventSink for Sink {
    fn emit(&self, event: AgentEvent) {
        self.waiting.store(matches!(event, AgentEvent::Waiting { .. }), Ordering::Relaxed);
        if matches!(event, AgentEvent::Error { .. }) {
            self.held_back.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        } else {
            if let Some(path) = edited(&event) {
                self.edits.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
            }
            self.tell(&event);
        }
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.steps.settled())
    }

    fn quiet(&self) -> BoxFuture<'_, ()> {
        Box::pin(quiet::until_no_call(&self.reporter))
    }
}

/// The file that an event says was changed.
fn edited(event: &AgentEvent) -> Option<&str> {
    match event {
        AgentEvent::FileEdited { file_path, .. } => Some(file_path),
        AgentEvent::Inside { event, .. } => edited(event),
        _ => None,
    }
}

/// The tool call that an event says is done.
fn completed(event: &AgentEvent) -> Option<&Completed> {
    match event {
        AgentEvent::ToolCompleted(call)
        | AgentEvent::SubagentCompleted { call, .. }
        | AgentEvent::SkillCompleted { call, .. } => Some(call),
        AgentEvent::Inside { event, .. } => completed(event),
        _ => None,
    }
}
