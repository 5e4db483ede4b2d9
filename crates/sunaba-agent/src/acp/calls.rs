//! The tool calls that are under way, told as they begin, write, change files and end.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::watch;

use super::files::Files;
use super::output::Output;
use super::translate;
use super::wire::ToolNews;
use crate::tools::{ToolCall, ToolReply};
use crate::{AgentEvent, EventSink};

struct Open {
    call: ToolCall,
    /// Its arguments, for those who have to know them all.
    inputs: watch::Sender<Value>,
    kind: String,
    turn: u32,
    began: Instant,
    is_told: bool,
    output: Output,
    files: Files,
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

    /// Whether anything is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// The agent begins with a call, or has begun.
    pub(super) async fn begin(&mut self, turn: u32, news: ToolNews) {
        if !self.open.contains_key(&news.tool_call_id) {
            let kind = news.kind.clone().unwrap_or_default();
            let call = ToolCall {
                id: news.tool_call_id.clone(),
                name: translate::tool_name(&news),
                input: Value::Null,
            };
            let open = Open {
                inputs: watch::Sender::new(Value::Null),
                kind,
                turn,
                began: Instant::now(),
                is_told: false,
                output: Output::default(),
                files: Files::default(),
                call,
            };
            self.open.insert(news.tool_call_id.clone(), open);
        }
        let may_be_told = news.status.as_deref().is_some_and(|status| status != "pending");
        self.learn(news, may_be_told).await;
    }

    /// Something is new about a call. What it is to do may come in pieces; it is told when it is whole.
    pub(super) async fn learn(&mut self, news: ToolNews, may_be_told: bool) {
        let Some(open) = self.open.get_mut(&news.tool_call_id) else { return };
        if let Some(kind) = &news.kind {
            open.kind.clone_from(kind);
        }
        if let Some(input) =
            news.raw_input.as_ref().filter(|input| translate::has_more(input, &open.call.input))
        {
            open.call.input = translate::input(input);
            open.inputs.send_replace(open.call.input.clone());
        }
        let status = news.status.as_deref().unwrap_or_default();
        let is_over = matches!(status, "completed" | "failed");
        if !open.is_told && (may_be_told || is_over) {
            open.is_told = true;
            self.events.emit(AgentEvent::tool_use(open.turn, &open.call));
        }
        if !is_over {
            open.files.see(&self.cwd, &open.kind, &news).await;
        }
        for chunk in open.output.take(&open.kind, &news) {
            self.events.emit(chunk.event(&open.call.id));
        }
        if is_over {
            let words = translate::words(&news).unwrap_or_else(|| open.output.all());
            let reply = if status == "failed" { ToolReply::error(words) } else { ToolReply::ok(words) };
            self.end(&news.tool_call_id, &reply).await;
        }
    }

    /// The call that an agent asks for, as far as it is known.
    pub(super) fn asked(&self, id: &str) -> Option<ToolCall> {
        self.open.get(id).map(|open| open.call.clone())
    }

    /// The arguments of a call, as they become known.
    pub(super) fn inputs(&self, id: &str) -> Option<watch::Receiver<Value>> {
        self.open.get(id).map(|open| open.inputs.subscribe())
    }

    /// Whether everything that a call touches surely lies in the work tree.
    pub(super) fn stays_inside(&self, id: &str) -> bool {
        self.open.get(id).is_some_and(|open| open.files.stay_inside(&self.cwd))
    }

    async fn end(&mut self, id: &str, reply: &ToolReply) {
        let Some(open) = self.open.remove(id) else { return };
        if !reply.is_error {
            for edit in open.files.changes(&self.cwd).await {
                self.events.emit(edit.event(open.turn, id));
            }
        }
        self.tell_end(&open, reply);
    }

    fn tell_end(&self, open: &Open, reply: &ToolReply) {
        self.events.emit(AgentEvent::tool_completed(open.turn, &open.call, reply, open.began.elapsed()));
        self.events.emit(AgentEvent::tool_result(open.turn, &open.call, reply));
    }

    /// Nothing of what is under way will end by itself.
    pub(super) fn give_up(&mut self, reason: &str) {
        let mut left: Vec<_> = self.open.drain().map(|(_, open)| open).collect();
        left.sort_unstable_by(|one, other| one.call.id.cmp(&other.call.id));
        for open in left {
            if !open.is_told {
                self.events.emit(AgentEvent::tool_use(open.turn, &open.call));
            }
            self.tell_end(&open, &ToolReply::error(reason));
        }
    }
}
