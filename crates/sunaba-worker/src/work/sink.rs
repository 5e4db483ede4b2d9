//! Takes the agent's events into the report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sunaba_agent::{AgentEvent, EventSink, Invoked};
use sunaba_types::Source;

use super::report::Reporter;

/// Of a tool's name in the worker's own output; the model may have made it up.
const TOOL_MAX_CHARS: usize = 64;

/// The agent's side of the report.
#[derive(Debug)]
pub(super) struct Sink {
    reporter: Reporter,
    waiting: Arc<AtomicBool>,
    /// The agent's last error. The server ends the attempt when it hears it, so it is told only
    /// after the work done so far is safe.
    held_back: Mutex<Vec<AgentEvent>>,
}

impl Sink {
    pub(super) fn new(reporter: Reporter, waiting: Arc<AtomicBool>) -> Self {
        Self { reporter, waiting, held_back: Mutex::new(Vec::new()) }
    }

    /// Tells what was held back.
    pub(super) fn release(&self) {
        let held = std::mem::take(&mut *self.held_back.lock().unwrap_or_else(PoisonError::into_inner));
        for event in held {
            self.tell(&event);
        }
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
        self.reporter.emit(event.event_type(), Source::Agent, event.payload());
    }
}

impl EventSink for Sink {
    fn emit(&self, event: AgentEvent) {
        self.waiting.store(matches!(event, AgentEvent::Waiting { .. }), Ordering::Relaxed);
        if matches!(event, AgentEvent::Error { .. }) {
            self.held_back.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        } else {
            self.tell(&event);
        }
    }
}
