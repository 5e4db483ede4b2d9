//! `GET /api/v1/agents`: the agents that are known, what each can do, and whether it is there.

use axum::extract::State;
use serde::Serialize;
use sunaba_types::agents::{CASES, KNOWN, KnownAgent, MEASURED};
use utoipa::ToSchema;

use super::{ApiResult, ok};
use crate::auth::Reader;
use crate::{AppState, ProviderReport};

/// Every agent by name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentList {
    /// The one that drives a sandbox when neither call nor project says.
    default_runtime: String,
    /// What makes it when neither says.
    default_provider: String,
    agents: Vec<AgentView>,
}

/// One agent. What it does is what the conformance suite finds at the version that is tested.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Agent)]
pub(crate) struct AgentView {
    /// As `runtime` names it.
    name: &'static str,
    title: &'static str,
    /// Whether it is part of Sunaba and nothing has to be installed.
    built_in: bool,
    /// The program that is looked for on a sandbox's path.
    program: Option<&'static str>,
    /// The version that is tested.
    tested_version: Option<&'static str>,
    /// The command that installs that version.
    install: Option<String>,
    /// How it asks the model.
    model_api: &'static str,
    /// Whether it is there, for each provider.
    found: Vec<FoundView>,
    capabilities: CapabilitiesView,
    /// What the conformance suite finds, case by case.
    cases: Vec<CaseView>,
    /// How long things took on a busy machine.
    measured: Vec<MeasuredView>,
}

/// Whether an agent is where a provider's sandboxes would run it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentFound)]
pub(crate) struct FoundView {
    provider: String,
    /// None when that cannot be seen without a sandbox: it is then a matter of the image.
    installed: Option<bool>,
    /// The version that was found, when it can be seen.
    version: Option<String>,
    /// Why one that is there would not run. Administrators only: it may name places on the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// What it can do while it works.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentCapabilities)]
pub(crate) struct CapabilitiesView {
    /// Where a message takes effect: `next_call`, `next_call_or_later` or `end_of_turn`.
    message: &'static str,
    /// Whether it can be stopped at once and told to go on.
    interrupt: bool,
    /// Whether it can be made to ask before it uses a tool.
    permissions: bool,
    /// Whether it can then be told to do something else.
    rewrite: bool,
    /// Whether its conversation goes on after a kill.
    resume: bool,
    /// Whether a copy of its conversation can be taken up.
    fork: bool,
    /// Whether it sends helpers and tells of them.
    helpers: bool,
}

/// One case of the suite.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentCase)]
pub(crate) struct CaseView {
    name: &'static str,
    title: &'static str,
    /// `yes`, `no` or `sometimes`.
    result: &'static str,
    /// How it does it, or what it does instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// How long something took.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentMeasured)]
pub(crate) struct MeasuredView {
    name: &'static str,
    title: &'static str,
    from_ms: u32,
    to_ms: u32,
}

/// The agents that are known, what each can do, and whether it is installed where sandboxes would run it.
#[utoipa::path(get, path = "/api/v1/agents", tag = "system", operation_id = "list_agents",
    responses((status = 200, body = AgentList)))]
pub(crate) async fn agents(State(state): State<AppState>, Reader(identity): Reader) -> ApiResult {
    let reports = state.providers.reports().await?;
    let config = state.config();
    let agents = KNOWN.iter().filter(|agent| config.runtimes.iter().any(|name| name == agent.name));
    let found = |agent: &KnownAgent| {
        // What runs in sandboxes that somebody else makes is theirs to know.
        let providers = config.providers.iter().filter(|name| *name != "external");
        providers.map(|name| found(agent, name, &reports, identity.is_admin())).collect()
    };
    let agents = agents.map(|agent| view(agent, found(agent))).collect();
    ok(&AgentList {
        default_runtime: config.default_runtime.clone(),
        default_provider: config.default_provider.clone(),
        agents,
    })
}

fn found(agent: &KnownAgent, provider: &str, reports: &[ProviderReport], with_details: bool) -> FoundView {
    let provider_name = provider.to_owned();
    if agent.is_built_in() {
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        return FoundView { provider: provider_name, installed: Some(true), version, problem: None };
    }
    let programs = reports.iter().find(|report| report.name == provider).and_then(|r| r.agents.as_ref());
    let Some(programs) = programs else {
        return FoundView { provider: provider_name, installed: None, version: None, problem: None };
    };
    let program = programs.iter().find(|program| program.agent == agent.name);
    FoundView {
        provider: provider_name,
        installed: Some(program.is_some_and(|program| program.problem.is_none())),
        version: program.and_then(|program| program.version.clone()),
        problem: program.and_then(|program| program.problem.clone()).filter(|_| with_details),
    }
}

fn view(agent: &KnownAgent, found: Vec<FoundView>) -> AgentView {
    AgentView {
        name: agent.name,
        title: agent.title,
        built_in: agent.is_built_in(),
        program: agent.program(),
        tested_version: (!agent.is_built_in()).then_some(agent.version),
        install: agent.install(),
        model_api: agent.model_api,
        found,
        capabilities: capabilities(agent),
        cases: cases(agent),
        measured: measured(agent),
    }
}

fn capabilities(agent: &KnownAgent) -> CapabilitiesView {
    let can = agent.abilities();
    CapabilitiesView {
        message: can.message.as_str(),
        interrupt: can.interrupt,
        permissions: can.permissions,
        rewrite: can.rewrite,
        resume: can.resume,
        fork: can.fork,
        helpers: can.helpers,
    }
}

fn title(known: &'static [(&'static str, &'static str)], name: &str) -> &'static str {
    known.iter().find(|(known, _)| *known == name).map_or("", |(_, title)| title)
}

fn cases(agent: &KnownAgent) -> Vec<CaseView> {
    let results = agent.results().into_iter();
    results
        .map(|result| CaseView {
            name: result.case,
            title: title(&CASES, result.case),
            result: result.verdict.as_str(),
            note: Some(result.note).filter(|note| !note.is_empty()),
        })
        .collect()
}

fn measured(agent: &KnownAgent) -> Vec<MeasuredView> {
    let measured = agent.measured().into_iter();
    measured
        .map(|time| MeasuredView {
            name: time.what,
            title: title(&MEASURED, time.what),
            from_ms: time.from_ms,
            to_ms: time.to_ms,
        })
        .collect()
}
