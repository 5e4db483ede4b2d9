//! The beginning of a run.

use uuid::Uuid;

use super::command::TakeUp;
use super::process;
use super::{CAPABILITIES, ClaudeConfig, NAME, store};
use crate::child::Process;
use crate::{AgentEvent, Ending, ErrorClass, RunContext, RunError, RunOutcome, SessionStart, Usage};

const NOT_AN_ID: &str = "a session of Claude Code is named by a UUID";

/// Lays the conversation where the CLI looks for it, and starts it.
pub(super) fn prepare(config: &ClaudeConfig, ctx: &RunContext) -> Result<(Process, TakeUp), RunError> {
    let wrong = |message: String| RunError { class: ErrorClass::Configuration, message };
    if let Some(error) = ctx.beyond(NAME, CAPABILITIES) {
        return Err(error);
    }
    let is_id = |id: &str| Uuid::parse_str(id).is_ok();
    let no_place = |error: std::io::Error| wrong(format!("cannot keep the conversation: {error}"));
    if !is_id(&ctx.session_id) {
        return Err(wrong(NOT_AN_ID.to_owned()));
    }
    std::fs::create_dir_all(store::config_dir(&ctx.home)).map_err(no_place)?;
    let take_up = match &ctx.session {
        SessionStart::New => TakeUp::New,
        SessionStart::Resume { transcript } => {
            store::put(&ctx.home, &ctx.cwd, &ctx.session_id, transcript).map_err(no_place)?;
            TakeUp::Same
        }
        SessionStart::Fork { from, transcript } if is_id(from) => {
            store::put(&ctx.home, &ctx.cwd, from, transcript).map_err(no_place)?;
            TakeUp::Fork { from: from.clone() }
        }
        SessionStart::Fork { .. } => return Err(wrong(NOT_AN_ID.to_owned())),
    };
    Ok((process::start(config, ctx, &take_up)?, take_up))
}

/// The outcome of a run that could not begin.
pub(super) fn never_began(ctx: RunContext, error: RunError) -> RunOutcome {
    ctx.events.emit(AgentEvent::Error {
        error: error.message.clone(),
        phase: "setup",
        error_class: error.class,
    });
    let mut inbox = ctx.inbox;
    inbox.close();
    RunOutcome {
        ending: Ending::Failed(error),
        turns: 0,
        usage: Usage::default(),
        session_id: ctx.session_id,
        transcript: None,
        final_output: String::new(),
        undelivered: std::iter::from_fn(|| inbox.try_recv().ok()).collect(),
    }
}
