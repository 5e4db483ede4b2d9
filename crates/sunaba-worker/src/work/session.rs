//! One run from its start to its report.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Map, Value, json};
use sunaba_agent::{AgentEvent, EventSink as _, Incoming, RunContext, RunOutcome, SessionStart, Transcript};
use sunaba_types::{Clock as _, Source, SystemClock};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::clone;
use super::config::{Agent, Assignment, Identity, Lookup};
use super::continuous::{self, Iterations};
use super::courier::Courier;
use super::inbox::Inbox;
use super::questions::Questions;
use super::report::{Reporter, SPOOL_MAX_BYTES, Spool};
use super::repository::{Captured, Repository};
use super::rounds::{Round, injected};
use super::sink::Sink;
use super::steps::{self, Steps};
use super::told::{completed, object, resumed, started};
use super::upkeep::Upkeep;

/// How long there is from SIGTERM to the end.
const GRACE: Duration = Duration::from_secs(8);
/// Of the grace, what is left for telling.
const GRACE_TELLING: Duration = Duration::from_secs(2);
/// Longer than the bridge holds a request while the server is away.
const PATIENCE: Duration = Duration::from_secs(65 * 60);
const LOCAL_PATIENCE: Duration = Duration::from_secs(120);
const PUSH_ATTEMPTS: u32 = 8;
/// For a last look at the files: more than one may take.
const LAST_STEP: Duration = Duration::from_secs(3);
/// For pushing the last steps, after the work itself is pushed.
const STEPS_PATIENCE: Duration = Duration::from_secs(30);
/// Messages that wait for one run of the agent.
const INBOX: usize = 64;

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
        started(
            identity,
            Agent::read(lookup).ok(),
            assignment.as_ref().ok(),
            resumed(assignment.as_ref().ok()),
        ),
    );
    let told = assignment.as_ref().ok().and_then(|assignment| assignment.prompt_message.clone());
    let (upkeep, inbox) = Upkeep::start(identity, &reporter, told)?;
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
pub(super) struct Failure {
    phase: &'static str,
    class: &'static str,
    error: String,
    turns: u32,
    /// The agent's last words.
    said: Vec<AgentEvent>,
}

impl Failure {
    pub(super) fn new(phase: &'static str, class: &'static str, error: String) -> Self {
        Self { phase, class, error, turns: 0, said: Vec::new() }
    }
}

/// Whether the work is committed and pushed.
#[derive(Debug, Clone, Copy)]
enum Kept {
    NotYet,
    /// That was seen. What lies around since then is of the check, and nobody's work.
    ByTheAgent,
}

/// What became of the work.
#[derive(Debug)]
struct Safe {
    captured: Captured,
    pushed: bool,
    trouble: Option<anyhow::Error>,
}

/// One run of the agent: where it begins, and until when it may go on.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) prompt: String,
    pub(super) session_id: String,
    pub(super) session: SessionStart,
    pub(super) deadline: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Session<'a> {
    pub(super) identity: &'a Identity,
    pub(super) reporter: Reporter,
    pub(super) upkeep: Upkeep,
    pub(super) terminated: Terminated,
}

/// What every run of the agent in this sandbox has in common.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) assignment: &'a Assignment,
    repository: Repository,
    pub(super) sink: Arc<Sink>,
    courier: Courier,
    steps: Arc<Steps>,
}

/// How a run that went well ended.
#[derive(Debug)]
struct Ended {
    /// Of all runs so far.
    turns: u32,
    /// The conversation and its name, if it can be gone on with.
    transcript: Option<(String, Transcript)>,
}

/// When the process was told to end.
#[derive(Debug, Clone)]
pub(super) struct Terminated {
    pub(super) token: CancellationToken,
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
    /// Runs the agent, makes its work safe, and goes on when somebody says more; the number of turns when all went well.
    async fn work(&self, assignment: &Assignment, inbox: mpsc::Receiver<Incoming>) -> Result<u32, Failure> {
        let unfit = |error: anyhow::Error| Failure::new("workspace", "configuration", format!("{error:#}"));
        let cloned = tokio::select! {
            cloned = clone::if_empty(&assignment.cwd, &assignment.branch, assignment.clone_url.as_deref()) => cloned,
            () = self.terminated.token.cancelled() => Err(anyhow::anyhow!("ended before the clone was made")),
        };
        cloned.map_err(unfit)?;
        let repository = Repository::open(&assignment.cwd, &assignment.branch).await.map_err(unfit)?;
        let steps = self.begin_steps(assignment).map_err(unfit)?;
        let courier = Courier::start(self.identity, self.reporter.clone(), assignment, self.agent_home());
        let courier = courier.map_err(unfit)?;
        let (reporter, waiting) = (self.reporter.clone(), Arc::clone(&self.upkeep.waiting));
        let stage = Stage {
            assignment,
            repository,
            sink: Arc::new(Sink::new(reporter, waiting, Arc::clone(&steps), courier.clone())),
            courier,
            steps,
        };
        tracing::info!(
            agent = assignment.agent.name(),
            model = assignment.model,
            branch = assignment.branch,
            "the agent starts"
        );
        let mut inbox = Inbox::new(inbox);
        let mut round = Some(self.first_round(assignment).await?);
        let mut turns = 0;
        while let Some(present) = round {
            let ended = self.play(&stage, present, &mut inbox).await?;
            turns = ended.turns;
            round = self.next_round(&stage, &mut inbox, ended.transcript).await;
        }
        Ok(turns)
    }

    /// One run of the agent, and its work made safe.
    async fn play(&self, stage: &Stage<'_>, round: Round, inbox: &mut Inbox) -> Result<Ended, Failure> {
        let Stage { assignment, repository, sink, courier, steps } = stage;
        round.said.iter().for_each(|message| sink.emit(injected(message)));
        let (to_agent, receiver) = mpsc::channel(INBOX);
        let run = Box::pin(self.run_to_its_end(stage, round.leg, receiver));
        let (mut outcome, continuous) = inbox.during(to_agent, run).await;
        tracing::info!(turns = outcome.turns, stop_reason = outcome.stop_reason(), "the agent ended");
        let turns = sink.run_ended(outcome.turns);
        let kept = match &continuous {
            Some(ended) if ended.is_safe => Kept::ByTheAgent,
            _ => Kept::NotYet,
        };
        let sent = self.until_grace_ends(async {
            tokio::select! {
                sent = courier.flush(PATIENCE) => Ok(sent),
                () = self.upkeep.over.cancelled() => Ok(false),
            }
        });
        let safe = self.until_grace_ends(self.make_safe(assignment, repository, steps, kept));
        let (captured, sent) = tokio::join!(safe, sent);
        if !sent.unwrap_or(false) {
            tracing::warn!("the server does not have the whole conversation");
        }
        let Safe { captured, pushed, trouble } = captured.unwrap_or_else(|error| Safe {
            captured: Captured::default(),
            pushed: false,
            trouble: Some(error),
        });
        let error = match &continuous {
            Some(ended) => ended.error.clone(),
            None => outcome.error(),
        };
        let success = error.is_none() && trouble.is_none();
        let mut produced = completed(assignment, &outcome, &captured, pushed, success);
        if let Some(ended) = &continuous {
            // Such a run is over with what follows, and not with this.
            produced.insert("continuous".to_owned(), true.into());
            produced.insert("tests_passed".to_owned(), ended.tests_passed.into());
        }
        self.reporter.emit("agent.completed", Source::Agent, produced);
        if let Some(ended) = continuous {
            let fields = ended.told(success, &captured, pushed);
            self.reporter.emit("continuous.completed", Source::Agent, fields);
        }
        inbox.take_back(std::mem::take(&mut outcome.undelivered));
        let failure =
            |phase, class, error| Failure { phase, class, error, turns, said: sink.take_held_back() };
        match (error, trouble) {
            (Some(error), _) => Err(failure("agent", error.class.as_str(), error.message)),
            (None, Some(error)) => Err(failure("capture", "git", format!("{error:#}"))),
            (None, None) => {
                sink.release();
                Ok(Ended { turns, transcript: outcome.transcript.map(|it| (outcome.session_id, it)) })
            }
        }
    }

    /// Runs the agent once, or in iterations until its work is seen to be done.
    async fn run_to_its_end(
        &self,
        stage: &Stage<'_>,
        leg: Leg,
        inbox: mpsc::Receiver<Incoming>,
    ) -> (RunOutcome, Option<continuous::Ended>) {
        let Stage { assignment, repository, sink, .. } = stage;
        let Some(settings) = &assignment.continuous else {
            return (self.run_agent(assignment, leg, inbox, Arc::clone(sink)).await, None);
        };
        let iterations = Iterations::new(self, settings, assignment, repository, Arc::clone(sink));
        let (outcome, ended) = iterations.beginning(leg).run(inbox).await;
        (outcome, Some(ended))
    }

    /// Who the worker is for the server.
    pub(super) fn identity(&self) -> &Identity {
        self.identity
    }

    pub(super) fn tell(&self, event_type: &str, fields: Map<String, Value>) {
        self.reporter.emit(event_type, Source::Agent, fields);
    }

    /// Whether the worker has to end.
    pub(super) fn is_over(&self) -> bool {
        self.terminated.token.is_cancelled() || self.upkeep.over.is_cancelled()
    }

    /// Lets something take its time; none when the worker has to end.
    pub(super) async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.terminated.token.cancelled() => None,
            () = self.upkeep.over.cancelled() => None,
            result = work => Some(result),
        }
    }

    pub(super) async fn run_agent(
        &self,
        assignment: &Assignment,
        leg: Leg,
        inbox: mpsc::Receiver<Incoming>,
        sink: Arc<Sink>,
    ) -> RunOutcome {
        let shutdown = CancellationToken::new();
        sink.about(&leg.session_id);
        let context = RunContext {
            prompt: leg.prompt,
            model: assignment.model.clone(),
            base_url: assignment.model_url.clone(),
            openai_base_url: assignment.openai_url.clone(),
            google_base_url: assignment.google_url.clone(),
            api_key: assignment.model_key.clone(),
            cwd: assignment.cwd.clone(),
            home: self.agent_home(),
            session_id: leg.session_id,
            session: leg.session,
            permission_mode: assignment.permission_mode,
            asks: Arc::new(self.questions()),
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
            () = until(leg.deadline) => {}
        }
        shutdown.cancel();
        agent.await
    }

    /// Where the runtime keeps what is its own.
    fn agent_home(&self) -> PathBuf {
        self.identity.home.join(".sunaba/agent")
    }

    fn begin_steps(&self, assignment: &Assignment) -> anyhow::Result<Arc<Steps>> {
        let wanted = steps::Wanted {
            sandbox_id: self.identity.sandbox_id.clone(),
            work_tree: assignment.cwd.clone(),
            scratch: self.identity.home.join(".sunaba/steps.git"),
            over: self.upkeep.over.clone(),
        };
        Ok(Arc::new(Steps::start(wanted, self.reporter.clone())?))
    }

    /// Takes the last step, commits and pushes the work, then the steps.
    async fn make_safe(
        &self,
        assignment: &Assignment,
        repository: &Repository,
        steps: &Steps,
        kept: Kept,
    ) -> anyhow::Result<Safe> {
        steps.finish(LAST_STEP).await;
        let safe = match kept {
            Kept::NotYet => self.make_work_safe(assignment, repository).await,
            Kept::ByTheAgent => {
                let local = self.terminated.patience(LOCAL_PATIENCE, GRACE_TELLING);
                repository.look(local).await.map(|captured| Safe { captured, pushed: true, trouble: None })
            }
        };
        if !steps.push_out(self.terminated.patience(STEPS_PATIENCE, GRACE_TELLING)).await {
            tracing::warn!("the last steps were not pushed in time");
        }
        safe
    }

    fn questions(&self) -> Questions {
        Questions::new(self.identity, &self.upkeep.waiting, &self.upkeep.over, &self.terminated.token)
    }

    /// Commits and pushes. What was committed is known even when the push fails.
    async fn make_work_safe(&self, assignment: &Assignment, repository: &Repository) -> anyhow::Result<Safe> {
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
        let mut last_words = Vec::new();
        if let Err(failure) = &result {
            let error = self.reporter.without_token(&failure.error);
            tracing::error!(phase = failure.phase, error, "the run failed");
            let said = failure.said.iter().map(|event| (event.event_type(), Source::Agent, event.payload()));
            last_words.extend(said);
            let fields =
                json!({"error": failure.error, "phase": failure.phase, "error_class": failure.class});
            last_words.push(("agent.failed", Source::Agent, object(fields)));
        }
        let shutdown = json!({
            "reason": reason,
            "total_turns": turns,
            "timestamp": SystemClock.now().to_string(),
            "dropped_output_events": self.reporter.dropped_output(),
        });
        last_words.push(("agent.shutdown", Source::Worker, object(shutdown)));
        // The first of them that the server hears ends the sandbox.
        self.reporter.emit_together(last_words);
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

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
