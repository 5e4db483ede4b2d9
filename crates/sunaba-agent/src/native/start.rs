//! From what a run is given to its loop.

use std::sync::Arc;

use sunaba_llm::{Client, ClientConfig, Usage};

use super::call::run_error;
use super::conversation::Conversation;
use super::guard::Guard;
use super::hands::Hands;
use super::helpers::Helpers;
use super::prompt::system_prompt;
use super::repository;
use super::run::{Run, tell_error};
use super::session::{self, SessionFile};
use super::steering::Steering;
use super::{CAPABILITIES, NAME, NativeConfig};
use crate::{
    AgentEvent, Ending, ErrorClass, EventSink, Incoming, RunContext, RunError, RunOutcome, SessionStart,
};

/// Does one task from its prompt to its outcome.
pub(super) async fn run(config: NativeConfig, ctx: RunContext) -> RunOutcome {
    let prepared = prepare(&config, &ctx);
    let steering = Steering::new(ctx.inbox, ctx.shutdown);
    let (client, conversation) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return never_began(ctx.session_id, error, steering.close(), &*ctx.events),
    };
    let mut conversation = conversation;
    let so_far = (ctx.session != SessionStart::New).then(|| conversation.as_entry());
    let file = SessionFile::begin(&ctx.home, &ctx.session_id, &ctx.session, so_far);
    let instructions = repository::instructions(&ctx.cwd, &["AGENTS.md", "CLAUDE.md"]);
    let (given, append) = (ctx.system_prompt.as_deref(), ctx.system_prompt_append.as_deref());
    let mut run = Run {
        system: system_prompt(given, instructions.as_deref(), append, &ctx.cwd),
        thinking: config.thinking,
        client: client.clone(),
        session_id: ctx.session_id,
        model: ctx.model.clone(),
        max_turns: ctx.max_turns,
        max_total_tokens: None,
        events: Arc::clone(&ctx.events),
        steering,
        conversation,
        file: None,
        turns: 0,
        usage: Usage::default(),
        final_output: String::new(),
        hands: hands(
            &config,
            client,
            instructions,
            ctx.model,
            Guard { mode: ctx.permission_mode, asks: ctx.asks, cwd: ctx.cwd },
            ctx.events,
        ),
        config,
    };
    match file {
        Ok(file) => run.file = Some(file),
        Err(error) => run.tell_unsaved(&error),
    }
    run.until_the_end(&ctx.prompt).await
}

/// The tools that the run may use, with what the repository adds to them.
fn hands(
    config: &NativeConfig,
    client: Client,
    instructions: Option<String>,
    model: String,
    guard: Guard,
    events: Arc<dyn EventSink>,
) -> Hands {
    let tools = config.tools.tools();
    let guard = Arc::new(guard);
    let skills = if tools.contains(&"Skill") { repository::skills(&guard.cwd) } else { Vec::new() };
    let skills = Arc::new(skills);
    let helpers = tools.contains(&"Task").then(|| Helpers {
        kinds: repository::agents(&guard.cwd),
        config: config.clone(),
        client,
        model,
        instructions,
        guard: Arc::clone(&guard),
        skills: Arc::clone(&skills),
        tools: tools.clone(),
        events: Arc::clone(&events),
    });
    Hands::new(tools, guard, skills, helpers, events, config.command_grace)
}

/// Everything that can be wrong before the first call.
fn prepare(config: &NativeConfig, ctx: &RunContext) -> Result<(Client, Conversation), RunError> {
    if let Some(error) = ctx.beyond(NAME, CAPABILITIES) {
        return Err(error);
    }
    let client = Client::new(ClientConfig {
        base_url: ctx.base_url.clone(),
        api_key: ctx.api_key.clone(),
        connect_timeout: config.connect_timeout,
        response_timeout: config.response_timeout,
        idle_timeout: config.idle_timeout,
    });
    let conversation = match &ctx.session {
        SessionStart::New => Conversation::default(),
        SessionStart::Resume { transcript } | SessionStart::Fork { transcript, .. } => {
            session::replay(transcript.as_bytes()).map_err(|reason| RunError {
                class: ErrorClass::Configuration,
                message: format!("the session cannot go on from its transcript: {reason}"),
            })?
        }
    };
    Ok((client.map_err(|error| run_error(&error))?, conversation))
}

fn never_began(
    session_id: String,
    error: RunError,
    undelivered: Vec<Incoming>,
    events: &dyn EventSink,
) -> RunOutcome {
    tell_error(events, "setup", &error);
    RunOutcome {
        ending: Ending::Failed(error),
        turns: 0,
        usage: Usage::default(),
        session_id,
        transcript: None,
        final_output: String::new(),
        undelivered,
    }
}

impl Run {
    /// Keeps what has happened. A disk that takes no more does not end the work; it is told, once.
    pub(super) fn save(&mut self) {
        let unsaved = self.conversation.take_unsaved();
        if unsaved.is_empty() {
            return;
        }
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.append(unsaved) {
            // Whatever came after the hole could not be read again.
            self.file = None;
            self.tell_unsaved(&error);
        }
    }

    fn tell_unsaved(&self, error: &std::io::Error) {
        tracing::warn!(%error, "the session is no longer saved");
        let metadata = serde_json::json!({ "subtype": "session_not_saved", "error": error.to_string() });
        self.events.emit(AgentEvent::SystemMessage { turn: self.turns, metadata });
    }
}
