//! Does what one answer of the model asks for.
//!
//! Calls that only look run at once; any other call runs alone, after those before it and before those after it. So
//! a file that is read after it was written is read as it was written, and results stand in the order of the calls.

use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use tokio_util::sync::CancellationToken;

use super::guard::{self, Guard, Verdict};
use crate::tools::{ToolCall, ToolReply, Toolbox};
use crate::{AgentEvent, EventSink};

/// Most calls that run at once.
const AT_ONCE_MAX: usize = 8;
pub(super) const NOT_RUN: &str = "[interrupted before it ran]";
const UNUSABLE_INPUT: &str = "the arguments are not a JSON object; the answer was probably cut off";

/// The tools of a run, and whoever is told of their work.
pub(super) struct Hands {
    pub(super) tools: Toolbox,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) guard: Guard,
}

/// What one answer asks for.
pub(super) struct Batch<'a> {
    pub(super) turn: u32,
    pub(super) calls: &'a [ToolCall],
    /// Ids of calls whose arguments came in pieces that do not fit together.
    pub(super) unusable: &'a [String],
}

impl Hands {
    /// Runs all of it; one reply for each call, in their order. Ends soon after `halt` is cancelled: what runs is
    /// ended, and what has not begun does not begin.
    pub(super) async fn run(&self, batch: &Batch<'_>, halt: &CancellationToken) -> Vec<ToolReply> {
        let mut replies = Vec::with_capacity(batch.calls.len());
        for together in
            batch.calls.chunk_by(|one, next| Toolbox::only_looks(one) && Toolbox::only_looks(next))
        {
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
        match self.guard.judge(call, halt).await {
            Verdict::Free => (None, self.tools.run(call, halt).await),
            Verdict::Changed(instead) => {
                let reply = guard::with_note(self.tools.run(&instead, halt).await, &instead);
                (Some(instead), reply)
            }
            Verdict::Refused(reply) => (None, reply),
        }
    }
}
