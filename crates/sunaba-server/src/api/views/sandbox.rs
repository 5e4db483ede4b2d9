//! A sandbox on the wire.

use serde::Serialize;
use sunaba_types::shim::Exit;
use sunaba_types::{Egress, ExecutionConfig, Resources, Resume, Sandbox, Terms, Timestamp};
use utoipa::ToSchema;

use crate::api::usage::usd;

/// What a sandbox may use.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ResourcesView {
    /// Memory in GiB.
    memory_gb: f64,
    /// Processor cores.
    cpu: f64,
    /// Disk in GiB.
    disk_gb: f64,
}

impl From<Resources> for ResourcesView {
    fn from(r: Resources) -> Self {
        Self { memory_gb: r.memory_gb, cpu: r.cpu, disk_gb: r.disk_gb }
    }
}

/// On what terms a sandbox was asked for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Terms)]
pub(crate) struct TermsView {
    /// What its task may spend on models, all attempts together; none without a bound.
    budget_usd: Option<f64>,
    /// How long its agent may work in it, all rounds together; none without a bound.
    timeout_seconds: Option<i64>,
    /// The least isolation it accepts.
    #[schema(example = "sampled")]
    isolation: &'static str,
    /// The names of the variables that were added to its environment.
    env: Vec<String>,
    /// The sandbox whose files it started from; none started from a branch.
    forked_from: Option<String>,
    /// The place of the event in that one's log that told of those files.
    forked_at: Option<i64>,
    /// How its agent works.
    #[schema(value_type = Object)]
    execution_config: ExecutionConfig,
    /// The conversation that it goes on with; none begins a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<ResumeView>,
    /// How long it waits for a follow-up when its agent is done; none: as long as the server says.
    #[serde(skip_serializing_if = "Option::is_none")]
    follow_up_minutes: Option<f64>,
    /// Why its place is given up while its task waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    suspended: Option<String>,
}

/// The conversation that a sandbox goes on with.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Resume)]
pub(crate) struct ResumeView {
    session_id: String,
    /// The sandbox that it was of.
    from: String,
    fork: bool,
    /// `asked`, `message`, `died`, `answer` or `quota`.
    because: &'static str,
    /// The tool call whose result is the last of it that counts; none: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
}

impl From<Resume> for ResumeView {
    fn from(r: Resume) -> Self {
        Self {
            session_id: r.session_id,
            from: r.from.into(),
            fork: r.fork,
            because: r.because.as_str(),
            until: r.until,
        }
    }
}

impl From<Terms> for TermsView {
    fn from(t: Terms) -> Self {
        Self {
            budget_usd: t.budget_usd,
            timeout_seconds: t.timeout_seconds,
            isolation: t.isolation.as_str(),
            env: t.env.into_keys().collect(),
            forked_at: t.files_from.as_ref().and_then(|from| from.seq),
            forked_from: t.files_from.map(|from| from.sandbox_id.into()),
            execution_config: t.execution_config,
            resume: t.resume.map(Into::into),
            follow_up_minutes: t.follow_up_seconds.map(minutes),
            suspended: t.suspended,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "within a day")]
fn minutes(seconds: i64) -> f64 {
    seconds as f64 / 60.0
}

/// What a sandbox may reach.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Egress)]
pub(crate) struct EgressView {
    preset: &'static str,
    allow: Vec<String>,
}

impl From<Egress> for EgressView {
    fn from(e: Egress) -> Self {
        Self { preset: e.preset.as_str(), allow: e.allow }
    }
}

/// How a sandbox ended at its provider.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Exit)]
pub(crate) struct ExitView {
    code: Option<i32>,
    signal: Option<i32>,
    oom_kills: u64,
    /// The limit it was ended for: `memory`, `disk`, `pids`.
    ended_for: Option<String>,
    killed_on_request: bool,
    error: Option<String>,
}

impl From<Exit> for ExitView {
    fn from(e: Exit) -> Self {
        Self {
            code: e.code,
            signal: e.signal,
            oom_kills: e.oom_kills,
            ended_for: e.ended_for,
            killed_on_request: e.killed_on_request,
            error: e.error,
        }
    }
}

/// One attempt at one task in one isolated machine.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Sandbox)]
pub(crate) struct SandboxView {
    id: String,
    project_id: Option<String>,
    task_id: Option<String>,
    attempt: i64,
    provider: String,
    provider_ref: Option<String>,
    /// The node that holds it; none while it waits to be taken up.
    node_id: Option<String>,
    #[schema(example = "running")]
    state: &'static str,
    state_entered_at: Timestamp,
    reason: Option<String>,
    runtime: String,
    model: String,
    prompt: String,
    branch_name: Option<String>,
    base_commit: Option<String>,
    head_commit: Option<String>,
    /// How well it is shut in, as measured.
    isolation: Option<String>,
    resources: ResourcesView,
    terms: TermsView,
    /// What it may reach, as decided when it was brought up.
    egress: Option<EgressView>,
    /// What its model calls cost so far.
    cost_usd: f64,
    exit: Option<ExitView>,
    alive_until: Option<Timestamp>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
}

impl From<Sandbox> for SandboxView {
    fn from(mut s: Sandbox) -> Self {
        Self {
            id: s.id.into(),
            project_id: s.project_id.map(Into::into),
            task_id: s.task_id.map(Into::into),
            attempt: s.attempt,
            provider: s.provider,
            provider_ref: s.provider_ref,
            node_id: s.node_id.map(Into::into),
            state: s.state.as_str(),
            state_entered_at: s.state_entered_at,
            reason: s.reason,
            runtime: s.runtime,
            model: s.model,
            prompt: s.prompt,
            branch_name: s.branch_name,
            base_commit: s.base_commit,
            head_commit: s.head_commit,
            isolation: s.isolation,
            resources: s.resources.into(),
            egress: s.terms.egress.take().map(Into::into),
            terms: s.terms.into(),
            cost_usd: usd(s.cost_micros),
            exit: s.exit.map(Into::into),
            alive_until: s.alive_until,
            created_at: s.created_at,
            ended_at: s.ended_at,
        }
    }
}
