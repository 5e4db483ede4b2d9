//! The iterations.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use sunaba_agent::{Ending, Incoming, RunError, RunOutcome, SessionStart, Usage};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::ended::{self, Ended};
use super::evidence::Evidence;
use super::progress::{Next, Progress, StopReason, says};
use super::prompts::{self, Why};
use super::settings::Continuous;
use crate::work::config::Assignment;
use crate::work::http::Client;
use crate::work::repository::Repository;
use crate::work::session::{Leg, Session};
use crate::work::sink::Sink;

/// How long git may take to say what is there.
const LOCAL_PATIENCE: Duration = Duration::from_secs(120);
/// How long a check may take.
const CHECK_PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How long the server may take to say what was spent; without an answer the last one counts.
const COST_PATIENCE: Duration = Duration::from_secs(10);
/// Messages that wait for the next iteration; the server keeps more.
const INBOX: usize = 64;

/// A continuous run under way.
pub(crate) struct Iterations<'a> {
    session: &'a Session<'a>,
    settings: &'a Continuous,
    assignment: &'a Assignment,
    repository: &'a Repository,
    sink: Arc<Sink>,
    began: Instant,
    progress: Progress,
    total: Total,
    why: Why,
    /// What is to be taken up; none as long as there is nothing.
    conversation: Option<(String, SessionStart)>,
    /// What arrived too late for an iteration.
    waiting: Vec<Incoming>,
    last_error: Option<RunError>,
    evidence: Option<Evidence>,
}

/// What all iterations did together.
#[derive(Default)]
struct Total {
    turns: u32,
    usage: Usage,
}

impl<'a> Iterations<'a> {
    pub(crate) fn new(
        session: &'a Session<'a>,
        settings: &'a Continuous,
        assignment: &'a Assignment,
        repository: &'a Repository,
        sink: Arc<Sink>,
    ) -> Self {
        Self {
            session,
            settings,
            assignment,
            repository,
            sink,
            began: Instant::now(),
            progress: Progress::default(),
            total: Total::default(),
            why: Why::First,
            conversation: None,
            waiting: Vec::new(),
            last_error: None,
            evidence: None,
        }
    }

    /// The same, going on with a conversation if the first run is to.
    pub(crate) fn beginning(mut self, leg: Leg) -> Self {
        if leg.session != SessionStart::New {
            self.conversation = Some((leg.session_id, leg.session));
        }
        self
    }

    /// Goes on until it is over.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Incoming>) -> (RunOutcome, Ended) {
        self.tell("continuous.started", self.limits());
        let mut last = None;
        let stop = loop {
            self.measure().await;
            if self.session.is_over() {
                break StopReason::Cancelled;
            }
            if let Some(stop) = self.progress.limit(self.settings) {
                break stop;
            }
            self.progress.state.iteration_num += 1;
            tracing::info!(iteration = self.progress.state.iteration_num, "an iteration starts");
            self.tell("iteration.started", Map::new());
            let outcome = self.iterate(&mut inbox).await;
            let next = self.judge(&outcome).await;
            last = Some(outcome);
            if let Next::Stop(stop) = next {
                break stop;
            }
        };
        self.measure().await;
        inbox.close();
        self.waiting.extend(std::iter::from_fn(|| inbox.try_recv().ok()));
        self.ended(stop, last)
    }

    /// One iteration, with everything that is said meanwhile.
    async fn iterate(&mut self, inbox: &mut mpsc::Receiver<Incoming>) -> RunOutcome {
        let (sender, receiver) = mpsc::channel(INBOX + self.waiting.len());
        for message in self.waiting.drain(..) {
            // There is room for all of them.
            let _ = sender.try_send(message);
        }
        let leg = self.leg();
        let agent = self.session.run_agent(self.assignment, leg, receiver, Arc::clone(&self.sink));
        let mut agent = std::pin::pin!(agent);
        let mut sender = Some(sender);
        let mut outcome = loop {
            tokio::select! {
                outcome = &mut agent => break outcome,
                passed = pass_on(inbox, sender.as_ref()), if sender.is_some() => if !passed { sender = None },
            }
        };
        self.total.turns += outcome.turns;
        self.total.usage.add(outcome.usage);
        self.waiting = std::mem::take(&mut outcome.undelivered);
        self.progress.state.last_session_id = Some(outcome.session_id.clone());
        let can_resume = self.assignment.agent.runtime(&self.assignment.native).capabilities().resume;
        self.conversation = match &outcome.transcript {
            Some(transcript) if can_resume => {
                let session = SessionStart::Resume { transcript: transcript.clone() };
                Some((outcome.session_id.clone(), session))
            }
            _ => None,
        };
        outcome
    }

    /// Where an iteration begins: in the same conversation if there is one, else with the whole task again.
    fn leg(&mut self) -> Leg {
        let task = prompts::task(&self.assignment.prompt, self.settings, &self.assignment.branch);
        let next = prompts::next(&self.why, self.settings);
        let deadline = Some(self.began + self.settings.max_duration);
        match self.conversation.take() {
            // One that was begun before this run has to be told the task.
            Some((session_id, session)) => {
                let prompt = if next.is_empty() { task } else { next };
                Leg { prompt, session_id, session, deadline }
            }
            None => Leg {
                prompt: if next.is_empty() { task } else { format!("{task}\n\n{next}") },
                session_id: uuid::Uuid::new_v4().to_string(),
                session: SessionStart::New,
                deadline,
            },
        }
    }

    /// What an iteration means for the next one.
    async fn judge(&mut self, outcome: &RunOutcome) -> Next {
        self.measure().await;
        // Its errors are told with the iteration: the server takes the agent's own for the end of the attempt.
        self.sink.forget();
        match &outcome.ending {
            Ending::Cancelled if self.is_late() => Next::Stop(StopReason::MaxDuration),
            Ending::Cancelled => Next::Stop(StopReason::Cancelled),
            Ending::Interrupted => Next::Stop(StopReason::Interrupted),
            Ending::Failed(error) => {
                let next = self.progress.failed(self.settings);
                let fields = json!({"error": error.message, "error_class": error.class.as_str()});
                self.tell("iteration.failed", object(fields));
                self.why = Why::Failed(error.message.clone());
                self.last_error = Some(error.clone());
                next
            }
            Ending::Completed { .. } | Ending::MaxTurns => self.worked(outcome).await,
        }
    }

    async fn worked(&mut self, outcome: &RunOutcome) -> Next {
        let says_done = outcome.success() && says(&outcome.final_output, &self.settings.signal);
        let mut next = self.progress.worked(self.settings, says_done);
        if says_done {
            self.tell("iteration.completion_signal", Map::new());
        }
        self.why = if says_done { Why::SayAgain } else { Why::NotDone };
        if next == Next::Validate {
            let missing = self.validate().await;
            next = if missing.is_empty() { Next::Stop(StopReason::Completed) } else { Next::GoOn };
            self.why = Why::Missing(missing);
        }
        let fields = json!({"turns": outcome.turns, "stop_reason": outcome.stop_reason()});
        self.tell("iteration.completed", object(fields));
        next
    }

    /// Looks for evidence; what is missing.
    async fn validate(&mut self) -> Vec<String> {
        let left = (self.began + self.settings.max_duration).saturating_duration_since(Instant::now());
        let patience = left.min(CHECK_PATIENCE);
        let looking = Box::pin(Evidence::look(self.settings, self.repository, LOCAL_PATIENCE, patience));
        let Some(evidence) = self.session.unless_over(looking).await else {
            return vec!["it was told to end before that could be seen".to_owned()];
        };
        let missing = evidence.missing(self.settings, &self.assignment.branch);
        self.progress.seen(&evidence, missing.is_empty());
        self.evidence = Some(evidence);
        self.measure().await;
        tracing::info!(passed = missing.is_empty(), "what the agent says was looked at");
        self.tell("iteration.validation", object(json!({"feedback": missing})));
        missing
    }

    fn is_late(&self) -> bool {
        self.began.elapsed() >= self.settings.max_duration
    }

    /// Time and money so far.
    async fn measure(&mut self) {
        self.progress.state.elapsed_seconds = self.began.elapsed().as_secs_f64();
        if let Some(Some(cost)) = self.session.unless_over(self.cost()).await {
            self.progress.state.total_cost_usd = Some(cost);
        }
    }

    /// What the gateway has counted for this sandbox.
    async fn cost(&self) -> Option<f64> {
        let identity = self.session.identity();
        let mut client = Client::new(&identity.callback_url, &identity.token).ok()?;
        let path = format!("/api/v1/sandboxes/{}/usage", identity.sandbox_id);
        let answer = client.get(&path, COST_PATIENCE).await.ok()?;
        let usage: Value = serde_json::from_slice(&answer.body).ok()?;
        usage.get("model")?.get("cost_usd")?.as_f64()
    }

    fn limits(&self) -> Map<String, Value> {
        object(json!({
            "max_iterations": self.settings.max_iterations,
            "max_total_cost_usd": self.settings.max_total_cost_usd,
            "max_duration_seconds": self.settings.max_duration.as_secs_f64(),
            "max_consecutive_errors": self.settings.max_consecutive_errors,
            "completion_signal": self.settings.signal,
            "completion_threshold": self.settings.threshold,
        }))
    }

    fn tell(&self, event_type: &str, mut fields: Map<String, Value>) {
        fields.extend(self.progress.state.fields());
        self.session.tell(event_type, fields);
    }

    fn ended(self, stop: StopReason, last: Option<RunOutcome>) -> (RunOutcome, Ended) {
        let error = self.error(stop, last.as_ref());
        let mut outcome = last.unwrap_or_else(ended::nothing_done);
        outcome.turns = self.total.turns;
        outcome.usage = self.total.usage;
        outcome.undelivered = self.waiting;
        let is_safe = stop == StopReason::Completed
            && self.evidence.is_some_and(|evidence| evidence.clean == Some(true) && evidence.pushed);
        let state = self.progress.state;
        (outcome, Ended { tests_passed: state.tests_passed, state, stop, is_safe, error })
    }

    fn error(&self, stop: StopReason, last: Option<&RunOutcome>) -> Option<RunError> {
        match stop {
            StopReason::MaxConsecutiveErrors => self.last_error.clone(),
            StopReason::Interrupted | StopReason::Cancelled => {
                last.and_then(RunOutcome::error).or_else(|| ended::nothing_done().error())
            }
            StopReason::Completed
            | StopReason::MaxIterations
            | StopReason::MaxCost
            | StopReason::MaxDuration => ended::not_done(stop, &self.progress.state, &self.why),
        }
    }
}

/// Passes one message on; false when there will be no more.
async fn pass_on(inbox: &mut mpsc::Receiver<Incoming>, sender: Option<&mpsc::Sender<Incoming>>) -> bool {
    let Some(sender) = sender else { return false };
    // First a place, so that nothing is taken that cannot be passed on.
    let Ok(place) = sender.reserve().await else {
        // The agent takes nothing more; the end of it is near.
        return std::future::pending().await;
    };
    match inbox.recv().await {
        Some(message) => {
            place.send(message);
            true
        }
        None => false,
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
