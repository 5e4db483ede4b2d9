//! The worker's own clone, where the server could make none: in a sandbox on another machine.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::Command;
use tokio::time::timeout;

/// How long a clone may take; while the server is away its requests are held.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
const WORDS_MAX_CHARS: usize = 2000;

/// Clones the branch into an empty workspace, when the environment says from where.
pub(super) async fn if_empty(dir: &Path, branch: &str, url: Option<&str>) -> anyhow::Result<()> {
    let Some(url) = url else { return Ok(()) };
    let empty =
        std::fs::read_dir(dir).with_context(|| format!("look into {}", dir.display()))?.next().is_none();
    if !empty {
        return Ok(());
    }
    tracing::info!(branch, "cloning the repository");
    // The branch is there from the start, or it is made where the default one stands.
    let exact = git(dir, &["clone", "--quiet", "--branch", branch, url, "."]).await;
    let Err(error) = exact else { return Ok(()) };
    if !is_missing_branch(&error) {
        return Err(error);
    }
    git(dir, &["clone", "--quiet", url, "."]).await?;
    git(dir, &["checkout", "--quiet", "-b", branch]).await
}

fn is_missing_branch(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("Remote branch")
}

async fn git(dir: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let what = format!("git {}", arguments.first().copied().unwrap_or_default());
    let running = Command::new("git")
        .args(arguments)
        .current_dir(dir)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, running)
        .await
        .with_context(|| format!("{what} took longer than {} s", PATIENCE.as_secs()))?
        .with_context(|| format!("cannot start {what}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words: String = words.trim().chars().take(WORDS_MAX_CHARS).collect();
    bail!("{what} failed ({}): {words}", output.status);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(dir: &Path, script: &str) {
        let made = std::process::Command::new("sh").arg("-ec").arg(script).current_dir(dir).status().unwrap();
        assert!(made.success());
    }

    #[tokio::test]
    async fn clones_once_and_only_into_an_empty_workspace() {
        let root = tempfile::tempdir().unwrap();
        make(
            root.path(),
            "git init -q -b main source; cd source; echo one > file; git add .;
            git -c user.name=t -c user.email=t@sunaba.invalid commit -qm one; git branch work",
        );
        let url = root.path().join("source").display().to_string();
        for branch in ["work", "not-there-yet"] {
            let dir = root.path().join(branch);
            std::fs::create_dir(&dir).unwrap();
            if_empty(&dir, branch, None).await.unwrap();
            assert!(!dir.join("file").exists(), "nothing said from where");
            if_empty(&dir, branch, Some(&url)).await.unwrap();
            assert_eq!(std::fs::read_to_string(dir.join("file")).unwrap(), "one\n");
            let head = std::fs::read_to_string(dir.join(".git/HEAD")).unwrap();
            assert_eq!(head.trim(), format!("ref: refs/heads/{branch}"));
            std::fs::write(dir.join("file"), "changed").unwrap();
            if_empty(&dir, branch, Some(&url)).await.unwrap();
            assert_eq!(std::fs::read_to_string(dir.join("file")).unwrap(), "changed", "it is left alone");
        }
        let dir = root.path().join("empty");
        std::fs::create_dir(&dir).unwrap();
        assert!(if_empty(&dir, "main", Some("/no/such/place")).await.is_err());
    }
}
