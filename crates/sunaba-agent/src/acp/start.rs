//! The beginning of a run: a process, and the session that it works in.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sunaba_types::agents::KnownAgent;
use tokio::time::{Instant, timeout_at};

use super::preset::Speaks;
use super::wire::{self, AUTH_REQUIRED, Heard, Introduction, NOT_INSTALLED, Refusal, Session};
use super::{AcpAgent, AcpConfig, command, gemini, store};
use crate::child::{Family, Process, Read};
use crate::{AgentEvent, Ending, ErrorClass, RunContext, RunError, RunOutcome, SessionStart, Usage};

/// An agent that waits for a prompt.
pub(super) struct Open {
    pub(super) process: Process,
    /// The agent's own name of the session.
    pub(super) session: String,
    /// What the agent says of itself.
    pub(super) introduction: Introduction,
    /// The number of the next request.
    pub(super) next_id: u64,
}

/// Lays the conversation where the agent looks for it; its own name of the session to take up.
pub(super) fn lay(config: &AcpConfig, ctx: &RunContext) -> Result<(PathBuf, Option<String>), RunError> {
    let preset = config.agent.preset();
    if let Some(error) = ctx.beyond(preset.known.name, preset.capabilities) {
        return Err(error);
    }
    let is_plain = |id: &str| {
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if !is_plain(&ctx.session_id) {
        return Err(wrong("a session is named by letters, digits and dashes".to_owned()));
    }
    let (whose, name, address) = match preset.speaks {
        Speaks::Anthropic => ("Anthropic", "ANTHROPIC_BASE_URL", &ctx.base_url),
        Speaks::OpenAi => ("OpenAI", "OPENAI_BASE_URL", &ctx.openai_base_url),
        Speaks::Google => ("Google", "GOOGLE_GEMINI_BASE_URL", &ctx.google_base_url),
    };
    if address.is_empty() {
        let title = preset.known.title;
        return Err(wrong(format!("{title} speaks {whose}'s protocol, and {name} is not set")));
    }
    let dir = store::dir(&ctx.home, preset, &ctx.session_id);
    let no_place = |error: std::io::Error| wrong(format!("cannot keep the conversation: {error}"));
    command::configure(&config.agent, ctx, &dir).map_err(no_place)?;
    let session = match &ctx.session {
        SessionStart::New => None,
        SessionStart::Resume { transcript } | SessionStart::Fork { transcript, .. } => {
            Some(store::put(&dir, preset, transcript).map_err(no_place)?)
        }
    };
    Ok((dir, session))
}

/// Starts the agent and opens the session.
pub(super) async fn open(
    config: &AcpConfig,
    ctx: &RunContext,
    dir: &Path,
    take_up: Option<String>,
) -> Result<Open, RunError> {
    if let Some(session) = take_up.as_ref().filter(|_| config.agent == AcpAgent::Gemini) {
        gemini::make_ready(dir, session)
            .map_err(|error| wrong(format!("cannot take the conversation up: {error}")))?;
    }
    let family = Family::new();
    let command = command::command(config, ctx, dir, &family.mark());
    let process = Process::start(command, family).map_err(|error| cannot_start(config, &error))?;
    let mut hello = Hello { process, next_id: 0, known: config.agent.preset().known };
    let conversation = hello.converse(config, ctx, take_up);
    let deadline = Instant::now() + config.startup_patience;
    let opened = tokio::select! {
        opened = timeout_at(deadline, conversation) => opened,
        () = ctx.shutdown.cancelled() => {
            return Err(RunError { class: ErrorClass::Cancelled, message: "told to end".to_owned() });
        }
    };
    let title = hello.known.title;
    let (session, introduction) = opened.map_err(|_| {
        let message = format!("{title} did not open a session in time");
        RunError { class: ErrorClass::Crashed, message }
    })??;
    store::keep_name(dir, &session)
        .map_err(|error| wrong(format!("cannot keep the conversation: {error}")))?;
    Ok(Open { process: hello.process, session, introduction, next_id: hello.next_id })
}

struct Hello {
    process: Process,
    next_id: u64,
    known: KnownAgent,
}

impl Hello {
    async fn converse(
        &mut self,
        config: &AcpConfig,
        ctx: &RunContext,
        take_up: Option<String>,
    ) -> Result<(String, Introduction), RunError> {
        let answer = self.ask("initialize", &wire::initialize()).await?;
        let introduction: Introduction = self.understood(answer)?;
        if !introduction.speaks_our_version() {
            let message = format!(
                "{} speaks version {} of the protocol",
                self.known.title, introduction.protocol_version
            );
            return Err(RunError { class: ErrorClass::Protocol, message });
        }
        let mut params = json!({"cwd": ctx.cwd, "mcpServers": []});
        if let Some(meta) = command::session_meta(&config.agent, ctx) {
            params["_meta"] = meta;
        }
        let session = match take_up {
            None => {
                let answer = self.ask("session/new", &params).await?;
                let session: Session = self.understood(answer)?;
                session.session_id
            }
            Some(_) if !introduction.can_load() => {
                return Err(wrong(format!("{} cannot take a session up again", self.known.title)));
            }
            Some(session) => {
                params["sessionId"] = Value::from(session.as_str());
                self.ask("session/load", &params).await?;
                session
            }
        };
        Ok((session, introduction))
    }

    /// Asks and waits. What else the agent tells meanwhile is the past of a session that is taken up.
    async fn ask(&mut self, method: &str, params: &Value) -> Result<Value, RunError> {
        let asked = self.next_id;
        self.next_id += 1;
        self.process.send(&wire::request(asked, method, params))?;
        loop {
            let bytes = match self.process.next_line().await {
                Some(Read::Whole(bytes)) => bytes,
                Some(Read::TooLong { .. }) => continue,
                None => return Err(self.ended().await),
            };
            match Heard::read(&bytes) {
                Ok(Heard::Answered { id, answer }) if id == asked => {
                    return answer.map_err(|refusal| self.refused(method, &refusal));
                }
                Ok(Heard::Asked { id, .. }) => self.process.send(&wire::refusal(&id, "not yet"))?,
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn understood<T: serde::de::DeserializeOwned>(&self, answer: Value) -> Result<T, RunError> {
        serde_json::from_value(answer).map_err(|error| {
            let message = format!("{} does not speak the protocol: {error}", self.known.title);
            RunError { class: ErrorClass::Protocol, message }
        })
    }

    fn refused(&self, method: &str, refusal: &Refusal) -> RunError {
        if refusal.code == NOT_INSTALLED && !self.known.is_built_in() {
            return wrong(self.known.to_be_installed(&refusal.words()));
        }
        let class = if refusal.code == AUTH_REQUIRED { ErrorClass::Auth } else { ErrorClass::Protocol };
        RunError { class, message: format!("{} refuses {method}: {}", self.known.title, refusal.words()) }
    }

    async fn ended(&mut self) -> RunError {
        let (status, last_words) = self.process.post_mortem().await;
        let how = status.map_or_else(|| "it closed its output".to_owned(), |status| status.to_string());
        let message =
            format!("{} ended before it began ({how}); it last said: {last_words}", self.known.title);
        RunError { class: ErrorClass::Crashed, message }
    }
}

fn cannot_start(config: &AcpConfig, error: &std::io::Error) -> RunError {
    let line = config.program.clone().unwrap_or_else(|| config.agent.command_line());
    let program = line.first().map_or("", String::as_str);
    wrong(match error.kind() {
        std::io::ErrorKind::NotFound => config.agent.preset().how_to_install(program),
        _ => format!("cannot start {program}: {error}"),
    })
}

fn wrong(message: String) -> RunError {
    RunError { class: ErrorClass::Configuration, message }
}

/// The outcome of a run that could not begin.
pub(super) fn never_began(ctx: RunContext, error: RunError) -> RunOutcome {
    let is_cancelled = error.class == ErrorClass::Cancelled;
    if !is_cancelled {
        ctx.events.emit(AgentEvent::Error {
            error: error.message.clone(),
            phase: "setup",
            error_class: error.class,
        });
    }
    let mut inbox = ctx.inbox;
    inbox.close();
    RunOutcome {
        ending: if is_cancelled { Ending::Cancelled } else { Ending::Failed(error) },
        turns: 0,
        usage: Usage::default(),
        session_id: ctx.session_id,
        transcript: None,
        final_output: String::new(),
        undelivered: std::iter::from_fn(|| inbox.try_recv().ok()).collect(),
    }
}
