//! Finds out what this host can do, by trying, and says what would mend what it cannot.
//!
//! Probes look through a [`Host`], so that a test can show them another one.
//! What they make on the way they remove again.

mod groups;
mod kernel;
mod programs;
mod walls;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sunaba_types::{Finding, FindingStatus};
use tokio::process::Command;
use tokio::time::timeout;

pub use walls::{Walls, walls};

use crate::Error;

/// Longest that one try may take.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);
/// As unprivileged as a sandbox's own user, and no sandbox's.
const NOBODY: u32 = 65_534;

/// Where a host shows what it can do.
#[derive(Debug, Clone)]
pub struct Host {
    /// Usually `/proc`.
    pub proc: PathBuf,
    /// Usually `/sys`.
    pub sys: PathBuf,
    /// Usually `/dev`.
    pub dev: PathBuf,
    /// Where programs are looked for.
    pub programs: Vec<PathBuf>,
}

impl Default for Host {
    fn default() -> Self {
        let places =
            ["/usr/bin", "/usr/local/bin", "/bin", "/usr/sbin", "/sbin", "/run/current-system/sw/bin"];
        Self {
            proc: PathBuf::from("/proc"),
            sys: PathBuf::from("/sys"),
            dev: PathBuf::from("/dev"),
            programs: places.map(PathBuf::from).into(),
        }
    }
}

impl Host {
    /// Where a program is.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        self.programs.iter().map(|dir| dir.join(name)).find(|path| path.is_file())
    }

    /// One line of the kernel's settings.
    fn setting(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.proc.join("sys").join(name)).ok()?;
        Some(text.trim().to_owned())
    }
}

/// Where bubblewrap is.
pub fn find_bubblewrap() -> Option<PathBuf> {
    Host::default().program("bwrap")
}

/// Everything that was looked at; `data` is the directory in which sandboxes are made.
pub async fn findings(host: &Host, data: &Path, unusable: Option<&Error>) -> Vec<Finding> {
    let mut all = vec![sandboxes(unusable)];
    all.push(programs::bubblewrap(host).await);
    all.push(kernel::user_namespaces(host).await);
    all.push(kernel::apparmor(host));
    all.extend(groups::controllers(host, data).await);
    all.push(kernel::seccomp(host));
    all.push(kernel::overlay(host, data).await);
    all.push(kernel::loop_disks(host, data).await);
    all.push(kernel::disk(data));
    all.push(kernel::landlock(host));
    all.push(kernel::kvm(host));
    all.push(programs::git(host).await);
    all
}

fn sandboxes(unusable: Option<&Error>) -> Finding {
    match unusable {
        None => ok("local sandboxes", "can be made"),
        Some(error) => {
            missing("local sandboxes", error.to_string(), "see the findings below that are missing")
        }
    }
}

fn ok(name: &str, detail: impl Into<String>) -> Finding {
    Finding { name: name.to_owned(), status: FindingStatus::Ok, detail: detail.into(), remedy: None }
}

fn weaker(name: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { status: FindingStatus::Weaker, remedy: Some(remedy.into()), ..ok(name, detail) }
}

fn missing(name: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { status: FindingStatus::Missing, remedy: Some(remedy.into()), ..ok(name, detail) }
}

fn not_used(name: &str, detail: impl Into<String>) -> Finding {
    Finding { status: FindingStatus::NotUsed, ..ok(name, detail) }
}

/// Runs a program to its end; what it wrote, or why it failed in one line.
async fn run(mut command: Command) -> Result<String, String> {
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C").current_dir("/");
    command.kill_on_drop(true);
    let output = match timeout(TRY_TIMEOUT, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err(format!("did not finish within {} s", TRY_TIMEOUT.as_secs())),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(match words.trim() {
        "" => output.status.to_string(),
        words => words.lines().last().unwrap_or(words).to_owned(),
    })
}
