//! `GET /api/v1/system/isolation`: what each provider enforces on this host.

use axum::extract::State;
use serde::Serialize;
use sunaba_types::{Finding, Isolation};
use utoipa::ToSchema;

use crate::api::views::ResourcesView;
use crate::api::{ApiResult, ok};
use crate::auth::Reader;
use crate::{AppState, ProviderReport};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IsolationReport {
    /// The isolation that holds when neither call nor project says.
    default_isolation: &'static str,
    providers: Vec<ProviderView>,
}

/// One provider.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProviderView {
    name: String,
    /// Whether it can make sandboxes now; none when nobody here can say.
    available: Option<bool>,
    /// What it enforces.
    isolation: Option<IsolationView>,
    /// The most one sandbox can get.
    capacity: Option<ResourcesView>,
    findings: Vec<FindingView>,
}

/// What is enforced: by the `kernel`, `sampled`, or `none`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Isolation)]
pub(crate) struct IsolationView {
    /// In one line, as it is recorded on each run.
    level: String,
    namespaces: bool,
    own_uid: bool,
    network_closed: bool,
    seccomp: bool,
    memory: &'static str,
    cpu: &'static str,
    pids: &'static str,
    disk: &'static str,
}

/// One thing that was looked at.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Finding)]
pub(crate) struct FindingView {
    name: String,
    /// `ok`, `weaker`, `missing` or `not_used`.
    status: &'static str,
    /// What was seen. Administrators only: it may name places on the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// What mends it. Administrators only.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// What each provider enforces, and what was found missing.
#[utoipa::path(get, path = "/api/v1/system/isolation", tag = "system", operation_id = "get_isolation",
    responses((status = 200, body = IsolationReport)))]
pub(crate) async fn isolation(State(state): State<AppState>, Reader(identity): Reader) -> ApiResult {
    let reports = state.providers.reports().await?;
    let names = &state.config().providers;
    let silent = names.iter().filter(|name| !reports.iter().any(|report| report.name == **name));
    let reported = reports.iter().map(|report| view(report, identity.is_admin()));
    let providers = reported.chain(silent.map(|name| unknown(name))).collect();
    ok(&IsolationReport { default_isolation: state.config().default_isolation.as_str(), providers })
}

fn unknown(name: &str) -> ProviderView {
    let name = name.to_owned();
    ProviderView { name, available: None, isolation: None, capacity: None, findings: Vec::new() }
}

fn view(report: &ProviderReport, with_details: bool) -> ProviderView {
    ProviderView {
        name: report.name.clone(),
        available: Some(report.available),
        isolation: report.isolation.as_ref().map(enforced),
        capacity: report.capacity.map(Into::into),
        findings: report.findings.iter().map(|finding| found(finding, with_details)).collect(),
    }
}

fn enforced(isolation: &Isolation) -> IsolationView {
    IsolationView {
        level: isolation.level(),
        namespaces: isolation.namespaces,
        own_uid: isolation.own_uid,
        network_closed: isolation.network_closed,
        seccomp: isolation.seccomp,
        memory: isolation.memory.as_str(),
        cpu: isolation.cpu.as_str(),
        pids: isolation.pids.as_str(),
        disk: isolation.disk.as_str(),
    }
}

fn found(finding: &Finding, with_details: bool) -> FindingView {
    FindingView {
        name: finding.name.clone(),
        status: finding.status.as_str(),
        detail: with_details.then(|| finding.detail.clone()),
        remedy: finding.remedy.clone().filter(|_| with_details),
    }
}
