//! The work as git sees it: what was changed, committing it, pushing it.
//!
//! What is reported about files and commits is observed here, never taken from
//! what the agent says.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

const LOCAL_PATIENCE: Duration = Duration::from_secs(120);
const PUSH_PAUSE: Duration = Duration::from_millis(200);
const PUSH_PAUSE_MAX: Duration = Duration::from_secs(10);
const WORDS_MAX_CHARS: usize = 2000;
const CHANGED_FILES_MAX: usize = 200;

/// A clone with the branch the work is for.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    dir: PathBuf,
    branch: String,
    /// Where the work began.
    base: String,
    /// Where the clone came from.
    remote: String,
}

/// What was produced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Captured {
    pub(super) head: String,
    pub(super) committed: bool,
    pub(super) files: Vec<String>,
    pub(super) files_changed: usize,
}

impl Repository {
    /// Looks at the clone before the agent begins.
    pub(super) async fn open(dir: &Path, branch: &str) -> anyhow::Result<Self> {
        let mut repository = Self {
            dir: dir.to_owned(),
            branch: branch.to_owned(),
            base: String::new(),
            remote: String::new(),
        };
        repository.base = repository
            .git(&["rev-parse", "--verify", "HEAD"], LOCAL_PATIENCE)
            .await
            .with_context(|| format!("{} is not a git repository with a commit", dir.display()))?;
        // One without a remote can be worked on; pushing will say what is wrong.
        repository.remote =
            repository.git(&["remote", "get-url", "origin"], LOCAL_PATIENCE).await.unwrap_or_default();
        Ok(repository)
    }

    /// Commits what is not committed and tells what there is.
    pub(super) async fn capture(
        &self,
        title: &str,
        sandbox_id: &str,
        patience: Duration,
    ) -> anyhow::Result<Captured> {
        let dirty = !self.git(&["status", "--porcelain"], patience).await?.is_empty();
        if dirty {
            self.git(&["add", "--all"], patience).await?;
            let message = format!("{title}\n\nSunaba-Sandbox: {sandbox_id}\n");
            if self.git(&["diff", "--cached", "--quiet"], patience).await.is_err() {
                self.git(&["commit", "--quiet", "--no-verify", "-m", &message], patience).await?;
            }
        }
        self.look(patience).await
    }

    /// Tells what there is, and leaves it as it is.
    pub(super) async fn look(&self, patience: Duration) -> anyhow::Result<Captured> {
        let head = self.git(&["rev-parse", "HEAD"], patience).await?;
        let changed = self.git(&["diff", "--name-only", "--no-renames", &self.base, &head], patience).await?;
        let files_changed = changed.lines().count();
        let files = changed.lines().take(CHANGED_FILES_MAX).map(str::to_owned).collect();
        Ok(Captured { committed: head != self.base, head, files, files_changed })
    }

    /// Where it is.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether everything is committed.
    pub(super) async fn is_clean(&self, patience: Duration) -> anyhow::Result<bool> {
        Ok(self.git(&["status", "--porcelain"], patience).await?.is_empty())
    }

    /// Whether the remote that the clone came with has this commit on the branch. Neither the clone's configuration
    /// nor the user's counts here: both may have been made to say something else.
    pub(super) async fn is_at_remote(&self, head: &str, patience: Duration) -> bool {
        let reference = format!("refs/heads/{}", self.branch);
        let mut asking = Command::new("git");
        asking
            .args(["ls-remote", &self.remote, &reference])
            .current_dir("/")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        let listed = run(asking, "ls-remote", patience).await;
        listed.is_ok_and(|line| line.split_whitespace().next() == Some(head))
    }

    /// Pushes until it is there or the time is up.
    pub(super) async fn push(&self, head: &str, patience: Duration, attempts: u32) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        let target = format!("{head}:refs/heads/{}", self.branch);
        let mut pause = PUSH_PAUSE;
        let mut failure = None;
        for _ in 0..attempts {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.git(&["push", "--quiet", "origin", &target], left).await {
                Ok(_) => return Ok(()),
                Err(error) => failure = Some(error),
            }
            // An answer that was lost on its way is no failure: the remote is asked.
            if self.remote_has(head, deadline).await {
                return Ok(());
            }
            if Instant::now() + pause >= deadline {
                break;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PUSH_PAUSE_MAX);
        }
        Err(failure.unwrap_or_else(|| anyhow::anyhow!("no time was left to push")))
    }

    async fn remote_has(&self, head: &str, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let reference = format!("refs/heads/{}", self.branch);
        let listed = self.git(&["ls-remote", "origin", &reference], left).await;
        listed.is_ok_and(|line| line.split_whitespace().next() == Some(head))
    }

    async fn git(&self, arguments: &[&str], patience: Duration) -> anyhow::Result<String> {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.dir);
        run(command, arguments.first().copied().unwrap_or_default(), patience).await
    }
}

async fn run(mut command: Command, name: &str, patience: Duration) -> anyhow::Result<String> {
    let what = format!("git {name}");
    let running = command.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(patience, running)
        .await
        .with_context(|| format!("{what} took longer than {} s", patience.as_secs()))?
        .with_context(|| format!("cannot start {what}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words: String = words.trim().chars().take(WORDS_MAX_CHARS).collect();
        bail!("{what} failed ({}): {words}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
