//! `sunaba project`: repositories and their settings, what their sandboxes may reach, their secrets.

use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};
use sunaba_types::Project;

use super::Context;
use crate::args::{ProjectCommand, SecretCommand};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::{clean_line, table};

/// Longest secret that is read, in bytes.
const SECRET_MAX_BYTES: u64 = 64 * 1024;

/// Does what was asked with projects.
pub(crate) async fn project(context: &Context, command: ProjectCommand) -> Outcome {
    let client = context.client().await?;
    match command {
        ProjectCommand::List => list(context, &client).await,
        ProjectCommand::Show { project } => {
            let project = find(&client, &project).await?;
            show(context, &client, project.id.as_str()).await
        }
        ProjectCommand::Set { project, pairs } => set(context, &client, &project, &pairs).await,
        ProjectCommand::Egress { project, preset, allow } => {
            let project = find(&client, &project).await?;
            let settings = json!({ "egress": { "preset": preset.as_str(), "allow": allow } });
            change(context, &client, project.id.as_str(), &settings).await
        }
        ProjectCommand::Secret { command } => secret(context, &client, command).await,
    }
}

/// The project of this id, name, or repository path.
pub(crate) async fn find(client: &Client, word: &str) -> Outcome<Project> {
    let path = std::fs::canonicalize(word).ok().and_then(|path| path.to_str().map(str::to_owned));
    let named = |project: &Project| {
        project.id.as_str() == word
            || project.name == word
            || project.repo_url.as_deref() == Some(word)
            || (path.is_some() && project.repo_path == path)
    };
    let mut matching: Vec<Project> = client.projects().await?.into_iter().filter(named).collect();
    match matching.len() {
        1 => Ok(matching.remove(0)),
        0 => Err(Failure::other(format!("there is no project {word}; `sunaba project list` lists them"))),
        _ => Err(Failure::usage(format!("{word} is the name of several projects; write an id"))),
    }
}

async fn list(context: &Context, client: &Client) -> Outcome {
    let projects = client.projects().await?;
    if context.json {
        output::json(&projects);
    } else if projects.is_empty() {
        output::note("no projects yet; `sunaba run` makes one of the repository it works on");
    } else {
        let rows: Vec<Vec<String>> = projects
            .iter()
            .map(|project| {
                let place = project.repo_path.as_deref().or(project.repo_url.as_deref()).unwrap_or_default();
                let egress =
                    project.settings.egress.as_ref().map_or("undecided", |egress| egress.preset.as_str());
                [project.id.as_str(), &project.name, egress, place].map(clean_line).to_vec()
            })
            .collect();
        output::out(&table(&["ID", "NAME", "EGRESS", "REPOSITORY"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(context: &Context, client: &Client, id: &str) -> Outcome {
    let project = client.project(id).await?;
    if context.json {
        output::json(&project);
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows: Vec<(String, String)> = Vec::new();
    for name in ["id", "name", "repo_path", "repo_url", "default_branch", "created_at"] {
        rows.push((name.to_owned(), said(project.get(name))));
    }
    for (name, value) in project.get("settings").and_then(Value::as_object).into_iter().flatten() {
        rows.push((name.clone(), said(Some(value))));
    }
    rows.push(("secrets".to_owned(), said(project.get("secrets"))));
    let text: String = rows
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name:18}{}\n", clean_line(value)))
        .collect();
    output::out(&text);
    Ok(ExitCode::SUCCESS)
}

fn said(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => items.iter().map(|item| said(Some(item))).collect::<Vec<_>>().join(", "),
        Some(other) => other.to_string(),
    }
}

async fn set(context: &Context, client: &Client, word: &str, pairs: &[String]) -> Outcome {
    let project = find(client, word).await?;
    let mut settings = Map::new();
    let mut pairs = pairs.iter();
    while let Some(key) = pairs.next() {
        let text = pairs.next().ok_or_else(|| {
            Failure::usage(format!("{key} has no value; write KEY VALUE, and null as the value to clear it"))
        })?;
        let (key, value) = setting(key, text)?;
        match (settings.get_mut(&key), value) {
            (Some(Value::Object(held)), Value::Object(more)) => held.extend(more),
            (_, value) => drop(settings.insert(key, value)),
        }
    }
    change(context, client, project.id.as_str(), &Value::Object(settings)).await
}

/// A setting as the server takes it. The parts of `resources` may be given alone.
fn setting(key: &str, text: &str) -> Outcome<(String, Value)> {
    const TEXTS: [&str; 7] =
        ["runtime", "model", "provider", "isolation", "setup_command", "root_fs", "image"];
    const OTHERS: [&str; 6] =
        ["toolchains", "resources", "budget_usd", "total_budget_usd", "egress", "setup_egress"];
    if text == "null" {
        return Ok((key.to_owned(), Value::Null));
    }
    if let Some(part) = key.strip_prefix("resources.") {
        let number: f64 = text.parse().map_err(|_| Failure::usage(format!("{key} must be a number")))?;
        return Ok(("resources".to_owned(), json!({ part: number })));
    }
    match key {
        "toolchains" => {
            let paths: Vec<&str> = text.split(',').map(str::trim).filter(|path| !path.is_empty()).collect();
            Ok((key.to_owned(), json!(paths)))
        }
        key if TEXTS.contains(&key) => Ok((key.to_owned(), json!(text))),
        key if OTHERS.contains(&key) => serde_json::from_str(text)
            .map(|value| (key.to_owned(), value))
            .map_err(|error| Failure::usage(format!("{key}: {text:?} is not JSON: {error}"))),
        _ => Err(Failure::usage(format!(
            "{key} is not a setting; there are {}, {}, resources.memory_gb, resources.cpu, resources.disk_gb",
            TEXTS.join(", "),
            OTHERS.join(", ")
        ))),
    }
}

async fn change(context: &Context, client: &Client, id: &str, settings: &Value) -> Outcome {
    client.update_project(id, settings).await?;
    show(context, client, id).await
}

async fn secret(context: &Context, client: &Client, command: SecretCommand) -> Outcome {
    match command {
        SecretCommand::Set { project, name } => {
            let project = find(client, &project).await?;
            let value = read_secret(&name)?;
            client.put_secret(project.id.as_str(), &name, value.expose_secret()).await?;
            output::note(&format!("{name} is set; it stays at the server and never enters a sandbox"));
        }
        SecretCommand::List { project } => {
            let project = find(client, &project).await?;
            let names = client.secrets(project.id.as_str()).await?;
            if context.json {
                output::json(&names);
            } else {
                for secret in &names {
                    output::line(&clean_line(&said(secret.get("name"))));
                }
            }
        }
        SecretCommand::Rm { project, name } => {
            let project = find(client, &project).await?;
            client.delete_secret(project.id.as_str(), &name).await?;
            output::note(&format!("{name} is gone"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a secret from a pipe, or from the terminal without showing it; never from the command line, which others
/// can read.
fn read_secret(name: &str) -> Outcome<SecretString> {
    let stdin = std::io::stdin();
    let mut text = String::new();
    if stdin.is_terminal() {
        output::note(&format!("{name} (it is not shown; end with Enter):"));
        let _quiet = Quiet::begin();
        stdin.read_line(&mut text)?;
    } else {
        stdin.lock().take(SECRET_MAX_BYTES + 1).read_to_string(&mut text)?;
    }
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() {
        return Err(Failure::usage(format!("{name} is empty; give its value on standard input")));
    }
    if value.len() as u64 > SECRET_MAX_BYTES {
        return Err(Failure::usage(format!("{name} is longer than {SECRET_MAX_BYTES} bytes")));
    }
    Ok(SecretString::from(value))
}

/// A terminal that does not show what is typed, until dropped.
struct Quiet(Option<nix::sys::termios::Termios>);

impl Quiet {
    fn begin() -> Self {
        use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin()).ok();
        if let Some(mut quiet) = before.clone() {
            quiet.local_flags.remove(LocalFlags::ECHO);
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &quiet);
        }
        Self(before)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        if let Some(before) = &self.0 {
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_what_they_are() {
        let value = |key: &str, text: &str| setting(key, text).unwrap().1;
        assert_eq!(value("budget_usd", "2.5"), json!(2.5));
        assert_eq!(value("setup_command", "make deps"), json!("make deps"));
        assert_eq!(value("toolchains", "/opt/a, /opt/b"), json!(["/opt/a", "/opt/b"]));
        assert_eq!(setting("resources.cpu", "2").unwrap(), ("resources".into(), json!({ "cpu": 2.0 })));
        assert_eq!(value("model", "null"), Value::Null);
        for (key, text) in [("nonsense", "1"), ("budget_usd", "much"), ("resources.cpu", "x")] {
            assert_eq!(setting(key, text).unwrap_err().exit_code(), 2, "{key}");
        }
    }
}
