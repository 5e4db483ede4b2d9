//! What a sandbox gets and may do: limits, isolation, egress.

use serde_json::json;
use sunaba_sandbox::{CreateRequest, Limits, Provider};
use sunaba_store::EventQuery;
use sunaba_types::{Egress, EgressPreset, Isolation, Project, Resources, Sandbox};

use crate::patience::patiently;
use crate::record::record;
use crate::repository_file::RepositoryFile;
use crate::{Error, Parts, Settings};

const GIB: f64 = 1_073_741_824.0;
/// Says what a sandbox may reach; written once, before anything runs in it.
const EGRESS_DECIDED: &str = "sandbox.egress";

/// What the provider is asked for.
pub(crate) fn create_request(settings: &Settings, sandbox: &Sandbox, project: &Project) -> CreateRequest {
    CreateRequest { limits: limits(sandbox.resources, settings.pids), image: project.settings.image.clone() }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "resources are checked to be positive and small when they are asked for; a float's cast saturates"
)]
fn limits(resources: Resources, pids: u32) -> Limits {
    Limits {
        memory_bytes: Some((resources.memory_gb * GIB) as u64),
        cpu_millis: Some((resources.cpu * 1000.0).ceil() as u32),
        pids: Some(pids),
        disk_bytes: Some((resources.disk_gb * GIB) as u64),
    }
}

/// What the provider enforces, if that is as much as the sandbox was asked for with.
pub(crate) async fn isolation(provider: &dyn Provider, sandbox: &Sandbox) -> Result<Isolation, Error> {
    let isolation = provider.isolation().await.map_err(|error| {
        Error::Missing(format!("no sandbox can be made here: {error}; `sunaba doctor` says what to do"))
    })?;
    let wanted = sandbox.terms.isolation;
    let short = isolation.falls_short_of(wanted);
    if short.is_empty() {
        return Ok(isolation);
    }
    Err(Error::Missing(format!(
        "this host cannot keep {} as isolation {wanted} asks for ({}); `sunaba doctor` says how to mend it, and \
         --isolation {} (or sandbox.isolation) accepts less",
        short.join(", "),
        isolation.level(),
        if wanted == sunaba_types::IsolationWanted::Strict { "sampled or any" } else { "any" },
    )))
}

/// What the sandbox may reach: what its project allows, shrunk by what was asked for and by its repository.
/// Decided once: a sandbox that is brought up again keeps it.
pub(crate) async fn egress(
    parts: &Parts,
    sandbox: &Sandbox,
    project: &Project,
    file: &RepositoryFile,
) -> Result<Egress, Error> {
    if let Some(decided) = decided(parts, sandbox).await? {
        return Ok(decided);
    }
    let allowed = project.settings.egress.clone().unwrap_or_else(|| parts.settings.default_egress.clone());
    let mut egress = allowed;
    for wanted in [&sandbox.terms.egress, &file.egress].into_iter().flatten() {
        egress = sunaba_engine::egress::shrink(&egress, wanted);
    }
    record(parts, &sandbox.id, EGRESS_DECIDED, &json!(egress)).await;
    Ok(egress)
}

async fn decided(parts: &Parts, sandbox: &Sandbox) -> Result<Option<Egress>, Error> {
    let mut query = EventQuery::newest(sandbox.id.clone(), 1);
    query.event_types = vec![EGRESS_DECIDED.to_owned()];
    let page = patiently(|| parts.store.list_events(query.clone())).await?;
    Ok(page.events.first().and_then(|event| serde_json::from_value(event.payload.to_value()).ok()))
}

/// What a setup command may reach: what the project says, else package registries where sandboxes may reach
/// those, else what sandboxes may; and never more than the repository wants. A command that may come from an
/// agent (`decided` is what its sandbox may reach then) gets no more than the agent itself.
pub(crate) fn setup_egress(
    settings: &Settings,
    project: &Project,
    file: &RepositoryFile,
    decided: Option<&Egress>,
) -> Egress {
    let of_sandboxes = project.settings.egress.as_ref().unwrap_or(&settings.default_egress);
    let preset = match of_sandboxes.preset {
        EgressPreset::None => EgressPreset::None,
        EgressPreset::Registries | EgressPreset::Open => EgressPreset::Registries,
    };
    let default = || Egress { preset, allow: of_sandboxes.allow.clone() };
    let mut egress = project.settings.setup_egress.clone().unwrap_or_else(default);
    for bound in file.egress.as_ref().into_iter().chain(decided) {
        egress = sunaba_engine::egress::shrink(&egress, bound);
    }
    egress
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_what_was_asked_for() {
        let limits = limits(Resources { memory_gb: 0.5, cpu: 1.5, disk_gb: 2.0 }, 99);
        assert_eq!(
            limits,
            Limits {
                memory_bytes: Some(1 << 29),
                cpu_millis: Some(1500),
                pids: Some(99),
                disk_bytes: Some(2 << 30)
            }
        );
    }

    #[test]
    fn a_setup_that_may_be_an_agents_reaches_no_more_than_the_agent() {
        let settings = Settings::new("/data".into());
        let none = Egress::default();
        let registries = Egress { preset: EgressPreset::Registries, allow: Vec::new() };
        let mut project = project();
        project.settings.egress = Some(none.clone());
        project.settings.setup_egress = Some(registries.clone());
        let file = RepositoryFile::default();
        assert_eq!(setup_egress(&settings, &project, &file, None), registries, "the source's own");
        assert_eq!(setup_egress(&settings, &project, &file, Some(&none)), none, "an agent's");
        let narrow = RepositoryFile { egress: Some(none.clone()), ..RepositoryFile::default() };
        assert_eq!(setup_egress(&settings, &project, &narrow, None), none, "the repository wants less");
    }

    fn project() -> Project {
        Project {
            id: sunaba_types::ProjectId::parse("p").unwrap(),
            name: "p".to_owned(),
            repo_path: None,
            repo_url: None,
            default_branch: "main".to_owned(),
            settings: sunaba_types::ProjectSettings::default(),
            home_node: None,
            created_at: sunaba_types::Timestamp::default(),
        }
    }
}
