//! The runs of the agent in one sandbox: the first, and one more each time somebody says something after it.

use serde_json::{Map, Value, json};
use sunaba_agent::{AgentEvent, EventSink as _, Incoming, SessionStart, Transcript};
use sunaba_types::{MessageType, Source};
use tokio::time::{Instant, timeout_at};

use super::config::Assignment;
use super::inbox::Inbox;
use super::session::{Failure, Leg, Session, Stage};
use super::told::{object, started};

/// What the agent is told, and in which conversation.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) leg: Leg,
    /// The messages that the prompt says.
    pub(super) said: Vec<Incoming>,
}

/// What an agent is told that was to go on with a conversation that is nowhere any more: the task, too.
fn anew(assignment: &Assignment, said: &str) -> String {
    match &assignment.task {
        Some(task) if task != said => format!("{task}\n\n{said}"),
        _ => said.to_owned(),
    }
}

fn conversation_lost() -> Map<String, Value> {
    let message =
        "the conversation is not kept any more; the agent begins a new one with the task and what was said";
    object(json!({"turn": 0, "metadata": {"subtype": "conversation_lost", "message": message}}))
}

impl Session<'_> {
    /// The work as it was asked for.
    pub(super) async fn first_round(&self, assignment: &Assignment) -> Result<Round, Failure> {
        let begun = match &assignment.resumption {
            Some(resumption) => tokio::select! {
                begun = resumption.begin(self.identity) => begun,
                () = self.terminated.token.cancelled() => {
                    Err(anyhow::anyhow!("ended before the conversation was there"))
                }
            },
            None => Ok(None),
        };
        let no_session = |error: anyhow::Error| {
            Failure::new("session", "configuration", format!("cannot go on with the conversation: {error:#}"))
        };
        let begun = begun.map_err(no_session)?;
        let is_lost = assignment.resumption.is_some() && begun.is_none();
        let (session_id, session) =
            begun.unwrap_or_else(|| (uuid::Uuid::new_v4().to_string(), SessionStart::New));
        let mut prompt = assignment.prompt.clone();
        if is_lost {
            self.tell("agent.system_message", conversation_lost());
            prompt = anew(assignment, &prompt);
        }
        let said = assignment.prompt_message.iter().map(|id| Incoming {
            message_id: id.clone(),
            message_type: MessageType::UserMessage,
            content: prompt.clone(),
            sender: String::new(),
        });
        let said = said.collect();
        Ok(Round { leg: Leg { prompt, session_id, session, deadline: None }, said })
    }

    /// Waits for somebody to say more; none when nobody does in time, or the conversation cannot go on here.
    pub(super) async fn next_round(
        &self,
        stage: &Stage<'_>,
        inbox: &mut Inbox,
        past: Option<(String, Transcript)>,
    ) -> Option<Round> {
        let assignment = stage.assignment;
        let until = Instant::now() + assignment.follow_up;
        let runtime = assignment.agent.runtime(&assignment.native);
        let (session_id, transcript) = past.filter(|_| runtime.capabilities().resume)?;
        if assignment.follow_up.is_zero() || assignment.continuous.is_some() {
            // What is still unread is taken up by the server, in another sandbox.
            return None;
        }
        let minutes = assignment.follow_up.as_secs_f64() / 60.0;
        stage
            .sink
            .emit(AgentEvent::Waiting { message: format!("done; waits {minutes} min for a follow-up") });
        let said = tokio::select! {
            said = timeout_at(until, inbox.words()) => said.ok().flatten()?,
            () = self.terminated.token.cancelled() => return None,
            () = self.upkeep.over.cancelled() => return None,
        };
        tracing::info!(messages = said.len(), "somebody said more; the agent goes on");
        let begun =
            started(self.identity, Some(assignment.agent.clone()), Some(assignment), Some(&session_id));
        self.reporter.emit("agent.started", Source::Agent, begun);
        let prompt = said.iter().map(spoken).collect::<Vec<_>>().join("\n\n");
        let session = SessionStart::Resume { transcript };
        Some(Round { leg: Leg { prompt, session_id, session, deadline: None }, said })
    }
}

/// A message as the model reads it: who speaks, and what.
fn spoken(message: &Incoming) -> String {
    format!("[message from {}] {}", message.sender, message.content)
}

/// Tells that a message is in the conversation.
pub(super) fn injected(message: &Incoming) -> AgentEvent {
    AgentEvent::MessageInjected {
        turn: 0,
        content_length: message.content.chars().count(),
        message_id: message.message_id.clone(),
        message_type: message.message_type.to_string(),
        content: message.content.clone(),
    }
}
