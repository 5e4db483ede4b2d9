//! What sandboxes of a project may reach, settled on its first use.

use std::io::IsTerminal as _;

use serde_json::json;
use sunaba_types::{EgressPreset, Project};

use super::Context;
use crate::args::RunTerms;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::clean_line;

/// Sets what was asked for; asks where nobody has decided yet; stays closed where nobody can be asked.
pub(crate) async fn settle(
    context: &Context,
    client: &Client,
    project: &Project,
    terms: &RunTerms,
) -> Outcome<()> {
    if terms.egress.is_some() || !terms.allow.is_empty() {
        let held = project.settings.egress.clone().unwrap_or_default();
        let preset = terms.egress.unwrap_or(held.preset);
        let mut allow = held.allow;
        allow.extend(terms.allow.iter().filter(|host| !held_in(&project.settings.egress, host)).cloned());
        return remember(client, project, preset, &allow).await;
    }
    if project.settings.egress.is_some() {
        return Ok(());
    }
    let is_asked = !context.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !is_asked {
        let open = context.hint(&format!("project egress {} registries", project.id));
        output::note(&format!(
            "sandboxes of {} reach no network; `{open}` lets them reach public package registries",
            clean_line(&project.name)
        ));
        return Ok(());
    }
    let preset = if ask().await? { EgressPreset::Registries } else { EgressPreset::None };
    remember(client, project, preset, &[]).await
}

fn held_in(egress: &Option<sunaba_types::Egress>, host: &String) -> bool {
    egress.as_ref().is_some_and(|egress| egress.allow.contains(host))
}

async fn ask() -> Outcome<bool> {
    output::note("Let sandboxes of this project reach public package registries? [Y/n]");
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = read.await.map_err(|error| Failure::Other(error.into()))??;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes"))
}

async fn remember(client: &Client, project: &Project, preset: EgressPreset, allow: &[String]) -> Outcome<()> {
    let settings = json!({ "egress": { "preset": preset, "allow": allow } });
    client.update_project(project.id.as_str(), &settings).await?;
    let besides = if allow.is_empty() { String::new() } else { format!(" and {}", allow.join(", ")) };
    output::note(&format!(
        "sandboxes of {} may reach: {preset}{}; remembered for the project",
        clean_line(&project.name),
        clean_line(&besides)
    ));
    Ok(())
}
