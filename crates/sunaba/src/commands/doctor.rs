//! `sunaba doctor`: what this host can enforce, what is weaker or missing, and what mends it.
//!
//! It looks for itself, so that it works without a server; when one runs, it shows the server's view too.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;
use sunaba_sandbox::Report;
use sunaba_types::{Finding, FindingStatus};

use super::Context;
use crate::config::{self, Config};
use crate::failure::Outcome;
use crate::output::{self, Colour};
use crate::render::{clean_line, table};
use crate::serve::providers;

/// Everything that was looked at.
#[derive(Debug, Serialize)]
struct Examination {
    /// Whether any sandbox can be made here.
    ok: bool,
    /// This host.
    host: Vec<Finding>,
    /// What each provider can do, as seen by this user.
    providers: Vec<Examined>,
    /// The same as the server sees it; none without one.
    server: Option<Value>,
}

/// One provider.
#[derive(Debug, Serialize)]
struct Examined {
    name: String,
    /// What it enforces, in one line; none when it cannot make a sandbox.
    isolation: Option<String>,
    /// Whether that is as much as is asked for here.
    enough: bool,
    /// What falls short of it.
    falls_short: Vec<&'static str>,
    findings: Vec<Finding>,
}

/// Looks at everything and says what it found.
pub(crate) async fn doctor(context: &Context) -> Outcome {
    let config = config::load(&context.settings(&crate::args::SettingArgs::default()))?.config;
    let examination = examine(context, &config).await?;
    if context.json {
        output::json(&examination);
    } else {
        output::out(&shown(&examination, &config, context.colour));
    }
    Ok(if examination.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn examine(context: &Context, config: &Config) -> Outcome<Examination> {
    let scratch = Scratch::for_missing(&config.data_dir);
    let mut looked = config.clone();
    if let Some(scratch) = &scratch {
        looked.data_dir.clone_from(&scratch.0);
    }
    let mut examined = Vec::new();
    for (name, provider) in providers::compose(&looked)? {
        let Report { isolation, findings } = provider.report().await;
        let falls_short = isolation
            .as_ref()
            .map(|found| found.falls_short_of(config.sandbox.isolation))
            .unwrap_or_default();
        let enough = isolation.is_some() && falls_short.is_empty();
        let isolation = isolation.map(|found| found.level());
        examined.push(Examined { name, isolation, enough, falls_short, findings });
    }
    let ok = examined.iter().any(|provider| provider.enough);
    let server = match context.client().await {
        Ok(client) => client.isolation().await.ok(),
        Err(_) => None,
    };
    Ok(Examination { ok, host: host(config), providers: examined, server })
}

/// A place for a look when there is no data directory yet: nothing is left behind.
struct Scratch(PathBuf);

impl Scratch {
    fn for_missing(data_dir: &Path) -> Option<Self> {
        if data_dir.exists() {
            return None;
        }
        Some(Self(std::env::temp_dir().join(format!("sunaba-doctor-{}", std::process::id()))))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn finding(name: &str, status: FindingStatus, detail: String, remedy: Option<&str>) -> Finding {
    Finding { name: name.to_owned(), status, detail, remedy: remedy.map(str::to_owned) }
}

fn host(config: &Config) -> Vec<Finding> {
    vec![data_dir(config), containers(config), daytona()]
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn data_dir(config: &Config) -> Finding {
    let dir = &config.data_dir;
    let Some(place) = dir.ancestors().find(|dir| dir.exists()) else {
        return finding("data directory", FindingStatus::Missing, dir.display().to_string(), None);
    };
    let free = nix::sys::statvfs::statvfs(place)
        .map(|disk| disk.blocks_available() as f64 * disk.fragment_size() as f64 / 1_073_741_824.0);
    let Ok(free) = free else {
        return finding(
            "data directory",
            FindingStatus::Missing,
            format!("{} cannot be looked at", dir.display()),
            None,
        );
    };
    let detail = format!("{}, {free:.1} GiB free", dir.display());
    if free < config.orchestrator.disk_free_gb {
        let remedy = "make room, or lower orchestrator.disk_free_gb: until then no sandbox is started";
        return finding("data directory", FindingStatus::Missing, detail, Some(remedy));
    }
    finding("data directory", FindingStatus::Ok, detail, None)
}

fn containers(config: &Config) -> Finding {
    if config.has_docker() {
        return finding(
            "container daemon",
            FindingStatus::Ok,
            format!("{}; see below", config.docker.host),
            None,
        );
    }
    let detail = "not configured; set docker.host or sandbox.provider to use one".to_owned();
    finding("container daemon", FindingStatus::NotUsed, detail, None)
}

fn daytona() -> Finding {
    finding(
        "Daytona",
        FindingStatus::NotUsed,
        "not configured; this version has no such provider".to_owned(),
        None,
    )
}

fn shown(examination: &Examination, config: &Config, colour: Colour) -> String {
    let mut text = String::from("this host\n");
    text.push_str(&rows(&examination.host, colour));
    for provider in &examination.providers {
        text.push_str(&format!("\nprovider {}\n", provider.name));
        text.push_str(&rows(&provider.findings, colour));
        let wanted = config.sandbox.isolation;
        text.push_str(&match &provider.isolation {
            None => format!("  {}\n", colour.red("cannot make sandboxes here")),
            Some(level) if provider.enough => {
                format!("  {} {level}\n  as much as sandbox.isolation {wanted} asks for\n", colour.green("isolates:"))
            }
            Some(level) => format!(
                "  {} {level}\n  sandbox.isolation {wanted} is not met: {}; mend what is weaker above, or accept \
                 less with --isolation any\n",
                colour.yellow("isolates:"),
                provider.falls_short.join(", ")
            ),
        });
    }
    text.push_str(&server_view(examination.server.as_ref()));
    text
}

fn rows(findings: &[Finding], colour: Colour) -> String {
    let cells: Vec<Vec<String>> = findings
        .iter()
        .map(|found| {
            vec![format!("  {}", word(found.status)), clean_line(&found.name), clean_line(&found.detail)]
        })
        .collect();
    let lines = table(&["", "", ""], &cells);
    let mut text = String::new();
    for (line, found) in lines.lines().skip(1).zip(findings) {
        let painted = match found.status {
            FindingStatus::Ok => line.to_owned(),
            FindingStatus::Weaker => colour.yellow(line),
            FindingStatus::Missing => colour.red(line),
            FindingStatus::NotUsed => colour.dim(line),
        };
        text.push_str(&format!("{painted}\n"));
        if let Some(remedy) = &found.remedy {
            text.push_str(&format!("           → {}\n", clean_line(remedy)));
        }
    }
    text
}

const fn word(status: FindingStatus) -> &'static str {
    match status {
        FindingStatus::Ok => "ok",
        FindingStatus::Weaker => "weaker",
        FindingStatus::Missing => "missing",
        FindingStatus::NotUsed => "-",
    }
}

fn server_view(server: Option<&Value>) -> String {
    let Some(server) = server else {
        return "\nno server was asked (none runs, or it did not answer)\n".to_owned();
    };
    let mut text = String::from("\nthe server sees\n");
    let providers = server.get("providers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for provider in providers {
        let name = provider.get("name").and_then(Value::as_str).unwrap_or_default();
        let level = provider.pointer("/isolation/level").and_then(Value::as_str);
        let says = match (provider.get("available").and_then(Value::as_bool), level) {
            (Some(true), Some(level)) => level,
            (Some(false), _) => "cannot make sandboxes",
            _ => "made by others; not looked at",
        };
        text.push_str(&format!("  {}: {}\n", clean_line(name), clean_line(says)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_what_mends_it() {
        let found = [
            finding("git", FindingStatus::Ok, "/usr/bin/git".into(), None),
            finding(
                "bubblewrap",
                FindingStatus::Missing,
                "not in PATH".into(),
                Some("apt install bubblewrap"),
            ),
        ];
        let text = rows(&found, Colour::Off);
        assert_eq!(
            text,
            "  ok       git         /usr/bin/git\n  missing  bubblewrap  not in PATH\n           → apt install bubblewrap\n"
        );
    }
}
