//! One run from its start to its report.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use sunaba_agent::{Incoming, NobodyToAsk, PermissionMode, RunContext, RunOutcome, SessionStart};
use sunaba_types::{Clock as _, Source, SystemClock};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::clone;
use super::config::{Agent, Assignment, Identity, Lookup};
use super::report::{Reporter, SPOOL_MAX_BYTES, Spool};
use super::repository::{Captured, Repository};
use super::sink::Sink;
use super::upkeep::Upkeep;

/// How long there is from SIGTERM to the end.
const GRACE: Duration = Duration::from_secs(8);
/// Of the grace, what is left for telling.
const GRACE_TELLING: Duration = Duration::from_secs(2);
/// Longer than the bridge holds a request while the server is away.
const PATIENCE: Duration = Duration::from_secs(65 * 60);
const LOCAL_PATIENCE: Duration = Duration::from_secs(120);
const PUSH_ATTEMPTS: u32 = 8;

/// Does the work; whether it succeeded.
pub(super) fn run(identity: &Identity, lookup: Lookup<'_>) -> anyhow::Result<bool> {
    let spool =
        Spool::open(&identity.home.join(".sunaba/spool"), SPOOL_MAX_BYTES).context("open the spool")?;
    let reporter = Reporter::new(identity, spool);
    let assignment = Assignment::read(lookup);
    tracing::info!(sandbox = identity.sandbox_id, "the worker started");
    reporter.emit(
        "agent.started",
        Source::Agent,
        started(Agent::read(lookup).ok(), assignment.as_ref().ok()),
    );
    let (upkeep, inbox) = Upkeep::start(identity, &reporter)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("make the runtime")?;
    runtime.block_on(async {
        let session = Session { identity, reporter, upkeep, terminated: watch_for_sigterm()? };
        let result = match assignment {
            Ok(assignment) => session.work(&assignment, inbox).await,
            Err(error) => Err(Failure::new("configuration", "configuration", error.to_string())),
        };
        Ok(session.conclude(result).await)
    })
}

/// Why the run did not succeed, and in which part of it.
#[derive(Debug)]
struct Failure {
    phase: &'static str,
    class: &'static str,
    error: String,
    turns: u32,
}

impl Failure {
    fn new(phase: &'static str, class: &'static str, error: String) -> Self {
        Self { phase, class, error, turns: 0 }
    }
}

/// What became of the work.
#[derive(Debug)]
struct Safe {
    captured: Captured,
    pushed: bool,
    trouble: Option<anyhow::Error>,
}

#[derive(Debug)]
struct Session<'a> {
    identity: &'a Identity,
    reporter: Reporter,
    upkeep: Upkeep,
    terminated: Terminated,
}

/// When the process was told to end.
#[derive(Debug, Clone)]
struct Terminated {
    token: CancellationToken,
    at: Arc<std::sync::OnceLock<Instant>>,
}

impl Terminated {
    /// How long something may take: as long as it likes, or what is left of the grace.
    fn patience(&self, usual: Duration, reserve: Duration) -> Duration {
        match self.at.get() {
            Some(at) => (*at + GRACE - reserve).saturating_duration_since(Instant::now()).min(usual),
            None => usual,
        }
    }
}

fn watch_for_sigterm() -> anyhow::Result<Terminated> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let terminated = Terminated { token: CancellationToken::new(), at: Arc::default() };
    let told = terminated.clone();
    tokio::spawn(async move {
        terminate.recv().await;
        let _ = told.at.set(Instant::now());
        told.token.cancel();
    });
    Ok(terminated)
}

impl Session<'_> {
    /// Runs the agent and makes its work safe; the number of turns when all went well.
    async fn work(&self, assignment: &Assignment, inbox: mpsc::Receiver<Incoming>) -> Result<u32, Failure> {
        let unfit = |error: anyhow::Error| Failure::new("workspace", "configuration", format!("{error:#}"));
        let cloned = tokio::select! {
            cloned = clone::if_empty(&assignment.cwd, &assignment.branch, assignment.clone_url.as_deref()) => cloned,
            () = self.terminated.token.cancelled() => Err(anyhow::anyhow!("ended before the clone was made")),
        };
        cloned.map_err(unfit)?;
        let repository = Repository::open(&assignment.cwd, &assignment.branch).await.map_err(unfit)?;
        let sink = Arc::new(Sink::new(self.reporter.clone(), Arc::clone(&self.upkeep.waiting)));
        tracing::info!(
            agent = assignment.agent.name(),
            model = assignment.model,
            branch = assignment.branch,
            "the agent starts"
        );
        let outcome = self.run_agent(assignment, inbox, Arc::clone(&sink)).await;
        tracing::info!(turns = outcome.turns, stop_reason = outcome.stop_reason(), "the agent ended");
        let captured = self.until_grace_ends(self.make_safe(assignment, &repository)).await;
        let Safe { captured, pushed, trouble } = captured.unwrap_or_else(|error| Safe {
            captured: Captured::default(),
            pushed: false,
            trouble: Some(error),
        });
        let success = outcome.success() && trouble.is_none();
        let produced = completed(assignment, &outcome, &captured, pushed, success);
        self.reporter.emit("agent.completed", Source::Agent, produced);
        sink.release();
        let failure = |phase, class, error| Failure { phase, class, error, turns: outcome.turns };
        match (outcome.error(), trouble) {
            (Some(error), _) => Err(failure("agent", error.class.as_str(), error.message)),
            (None, Some(error)) => Err(failure("capture", "git", format!("{error:#}"))),
            (None, None) => Ok(outcome.turns),
        }
    }

    async fn run_agent(
        &self,
        assignment: &Assignment,
        inbox: mpsc::Receiver<Incoming>,
        sink: Arc<Sink>,
    ) -> RunOutcome {
        let shutdown = CancellationToken::new();
        let context = RunContext {
            prompt: assignment.prompt.clone(),
            model: assignment.model.clone(),
            base_url: assignment.model_url.clone(),
            api_key: assignment.model_key.clone(),
            cwd: assignment.cwd.clone(),
            home: self.identity.home.join(".sunaba/agent"),
            session_id: uuid::Uuid::new_v4().to_string(),
            session: SessionStart::New,
            permission_mode: PermissionMode::Bypass,
            asks: Arc::new(NobodyToAsk),
            max_turns: assignment.max_turns,
            system_prompt: assignment.system_prompt.clone(),
            system_prompt_append: assignment.system_prompt_append.clone(),
            events: sink,
            inbox,
            shutdown: shutdown.clone(),
        };
        let mut agent = assignment.agent.runtime(&assignment.native).run(context);
        tokio::select! {
            outcome = &mut agent => return outcome,
            () = self.terminated.token.cancelled() => {}
            () = self.upkeep.over.cancelled() => {}
        }
        shutdown.cancel();
        agent.await
    }

    /// Commits and pushes. What was committed is known even when the push fails.
    async fn make_safe(&self, assignment: &Assignment, repository: &Repository) -> anyhow::Result<Safe> {
        let local = self.terminated.patience(LOCAL_PATIENCE, GRACE_TELLING);
        let captured = repository.capture(&assignment.title, &self.identity.sandbox_id, local).await?;
        if !captured.committed {
            tracing::info!("nothing was committed");
            return Ok(Safe { captured, pushed: false, trouble: None });
        }
        tracing::info!(commit = captured.head, files = captured.files_changed, "the work is committed");
        if self.upkeep.over.is_cancelled() {
            let trouble = Some(anyhow::anyhow!("not pushed: this attempt is over"));
            return Ok(Safe { captured, pushed: false, trouble });
        }
        let patience = self.terminated.patience(PATIENCE, GRACE_TELLING);
        let trouble =
            repository.push(&captured.head, patience, PUSH_ATTEMPTS).await.context("push the work").err();
        match &trouble {
            None => tracing::info!(branch = assignment.branch, "the work is pushed"),
            // Why is told with the end.
            Some(_) => tracing::warn!(branch = assignment.branch, "the work could not be pushed"),
        }
        Ok(Safe { captured, pushed: trouble.is_none(), trouble })
    }

    /// Lets something take its time, unless SIGTERM comes or has come.
    async fn until_grace_ends<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        tokio::pin!(work);
        tokio::select! {
            result = &mut work => return result,
            () = self.terminated.token.cancelled() => {}
        }
        let left = self.terminated.patience(GRACE, GRACE_TELLING);
        timeout(left, work).await.context("told to end before the work was safe")?
    }

    /// Tells how it ended and waits until that is known.
    async fn conclude(&self, result: Result<u32, Failure>) -> bool {
        let (succeeded, turns, reason) = match &result {
            Ok(turns) => (true, *turns, "completed"),
            Err(failure) => (
                false,
                failure.turns,
                if self.terminated.token.is_cancelled() { "terminated" } else { "failed" },
            ),
        };
        if let Err(failure) = &result {
            let error = self.reporter.without_token(&failure.error);
            tracing::error!(phase = failure.phase, error, "the run failed");
            let fields =
                json!({"error": failure.error, "phase": failure.phase, "error_class": failure.class});
            self.reporter.emit("agent.failed", Source::Agent, object(fields));
        }
        let shutdown = json!({
            "reason": reason,
            "total_turns": turns,
            "timestamp": SystemClock.now().to_string(),
            "dropped_output_events": self.reporter.dropped_output(),
        });
        self.reporter.emit("agent.shutdown", Source::Worker, object(shutdown));
        let flushed = self.flush().await;
        if !flushed {
            tracing::warn!("ended before the server had every event");
        }
        tracing::info!(reason, "the worker ends");
        succeeded && flushed
    }

    /// Waits until the server has every event; not longer than the grace, and not for a server that wants none.
    async fn flush(&self) -> bool {
        let flushed = self.reporter.flush(PATIENCE);
        let hurried = async {
            self.terminated.token.cancelled().await;
            tokio::time::sleep(self.terminated.patience(GRACE, Duration::ZERO)).await;
        };
        tokio::select! {
            flushed = flushed => flushed,
            () = self.upkeep.over.cancelled() => false,
            () = hurried => false,
        }
    }
}

fn started(agent: Option<Agent>, assignment: Option<&Assignment>) -> Map<String, Value> {
    object(json!({
        "timestamp": SystemClock.now().to_string(),
        "sdk": agent.map(Agent::sdk),
        "runtime": agent.map(Agent::name),
        "heartbeat": "continuous",
        "model": assignment.map(|assignment| &assignment.model),
        "task": assignment.map(|assignment| &assignment.title),
        "branch_name": assignment.map(|assignment| &assignment.branch),
        "resumed_session_id": null,
        "is_resuming": false,
    }))
}

fn completed(
    assignment: &Assignment,
    outcome: &RunOutcome,
    captured: &Captured,
    pushed: bool,
    success: bool,
) -> Map<String, Value> {
    let undelivered: Vec<_> = outcome.undelivered.iter().map(|message| &message.message_id).collect();
    object(json!({
        "success": success,
        "turns": outcome.turns,
        "session_id": outcome.session_id,
        "stop_reason": outcome.stop_reason(),
        "input_tokens": outcome.usage.input_tokens,
        "output_tokens": outcome.usage.output_tokens,
        "cache_read_tokens": outcome.usage.cache_read_tokens,
        "cache_write_tokens": outcome.usage.cache_write_tokens,
        "cost_usd": null,
        "final_output": outcome.final_output,
        "branch_name": assignment.branch,
        "agent_type": assignment.agent_type,
        "files_changed": captured.files_changed,
        "changed_files": captured.files,
        "head_commit": captured.head,
        "tests_passed": null,
        "code_committed": captured.committed,
        "code_pushed": pushed,
        "pr_created": false,
        "pr_url": null,
        "pr_number": null,
        "undelivered_messages": undelivered,
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
