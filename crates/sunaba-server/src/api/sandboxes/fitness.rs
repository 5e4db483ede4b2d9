//! Whether a provider can give what a sandbox is asked for. What it cannot is refused before anything is made.

use http::StatusCode;
use sunaba_types::{FindingStatus, IsolationWanted, Resources, ResourcesWanted};

use super::terms::numbers;
use crate::{ApiError, AppState, FieldError, ProviderReport};

/// What a sandbox wants of its provider.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub(super) provider: &'a str,
    /// What the call or the project asks for.
    pub(super) resources: ResourcesWanted,
    pub(super) isolation: IsolationWanted,
}

/// The resources it gets: what is asked for, or the server's default as far as the provider can give that.
pub(super) async fn check(state: &AppState, wanted: &Wanted<'_>) -> Result<Resources, ApiError> {
    let known = &state.config().providers;
    if !known.iter().any(|name| name == wanted.provider) {
        if let Some(nodes) = &state.parts.nodes
            && nodes.others_have(wanted.provider).await?
        {
            // The node that takes it up looks whether it can.
            return Ok(wanted.resources.over(state.config().default_resources));
        }
        return Err(ApiError::field("provider", format!("must be one of {}", known.join(", "))));
    }
    let default = state.config().default_resources;
    let Some(report) = state.providers.find(wanted.provider).await? else {
        return Ok(wanted.resources.over(default));
    };
    if !report.available {
        return Err(unavailable(&report));
    }
    if let Some(capacity) = report.capacity {
        within(&wanted.resources, capacity, wanted.provider)?;
    }
    if let Some(isolation) = &report.isolation {
        let short = isolation.falls_short_of(wanted.isolation);
        if !short.is_empty() {
            return Err(too_weak(wanted, &short));
        }
    }
    Ok(wanted.resources.over(report.capacity.map_or(default, |capacity| least(default, capacity))))
}

fn least(one: Resources, other: Resources) -> Resources {
    Resources {
        memory_gb: one.memory_gb.min(other.memory_gb),
        cpu: one.cpu.min(other.cpu),
        disk_gb: one.disk_gb.min(other.disk_gb),
    }
}

fn within(asked: &ResourcesWanted, capacity: Resources, provider: &str) -> Result<(), ApiError> {
    let most = |name| match name {
        "memory_gb" => capacity.memory_gb,
        "cpu" => capacity.cpu,
        _ => capacity.disk_gb,
    };
    let faults: Vec<FieldError> = numbers(asked)
        .filter(|(name, number)| *number > most(name))
        .map(|(name, number)| FieldError {
            field: format!("resources.{name}"),
            detail: format!(
                "{number} is asked for, {} is the most that one sandbox of the provider {provider} can get",
                most(name)
            ),
        })
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(ApiError::validation(faults)) }
}

fn unavailable(report: &ProviderReport) -> ApiError {
    let missing: Vec<&str> = report
        .findings
        .iter()
        .filter(|finding| finding.status == FindingStatus::Missing)
        .map(|finding| finding.name.as_str())
        .collect();
    let why = if missing.is_empty() { String::new() } else { format!(" (missing: {})", missing.join(", ")) };
    let detail = format!(
        "the provider {} cannot make sandboxes here now{why}; `sunaba doctor` says what to do",
        report.name
    );
    refusal("provider_unavailable", "provider", detail)
}

fn too_weak(wanted: &Wanted<'_>, short: &[&str]) -> ApiError {
    let detail = format!(
        "isolation `{}` is asked for and the provider {} falls short of it in: {}. `sunaba doctor` says what the \
         host is missing; `isolation: any` accepts what there is",
        wanted.isolation,
        wanted.provider,
        short.join(", ")
    );
    refusal("isolation_unavailable", "isolation", detail)
}

fn refusal(code: &'static str, field: &str, detail: String) -> ApiError {
    let error = FieldError { field: field.to_owned(), detail: detail.clone() };
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail).with_errors(vec![error])
}
