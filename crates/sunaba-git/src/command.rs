//! Runs the `git` program: fixed environment, bounded output, a time limit.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::running::Running;
use crate::{Error, Result};

/// The limit for calls that only read or write a few refs.
pub(crate) const SHORT: Duration = Duration::from_secs(60);
/// The limit for calls that move objects or files.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// What one git may use when it reads what a sandbox made.
const SANDBOX_OBJECTS_MEMORY: u64 = 1 << 30;

const OUTPUT_MAX_BYTES: u64 = 16 * 1024 * 1024;
const STDERR_MAX_BYTES: u64 = 64 * 1024;
const STDERR_SHOWN_CHARS: usize = 2000;

/// The part of our own environment that git may see: how to find programs and reach remotes.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "https_proxy",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "TMPDIR",
];

/// Settings that hold whatever the repository's own configuration says.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "safe.directory=*",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    // Large files are streamed instead of held, so that the bound on memory is met by hostile objects only.
    "core.bigFileThreshold=64m",
    "pack.windowMemory=128m",
    "pack.deltaCacheSize=64m",
];

/// The user as whom git runs on somebody's repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// The start of a command line that runs the rest as this user. It is for where git itself starts a program
    /// and so nothing of ours can change the user in between.
    pub(crate) fn shell_prefix(self) -> String {
        let Self { uid, gid } = self;
        format!("setpriv --reuid={uid} --regid={gid} --clear-groups env HOME=/nonexistent ")
    }

    /// The owner of a path, if we are root and it is somebody else.
    pub(crate) fn of(path: &Path) -> Result<Option<Self>> {
        use std::os::unix::fs::MetadataExt;
        let metadata =
            std::fs::metadata(path).map_err(Error::io(format!("looking at {}", path.display())))?;
        let foreign = nix::unistd::geteuid().is_root() && metadata.uid() != 0;
        Ok(foreign.then(|| Self { uid: metadata.uid(), gid: metadata.gid() }))
    }
}

/// One call of git.
#[derive(Debug)]
pub(crate) struct Git {
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    owner: Option<Owner>,
    stdin: Vec<u8>,
    limit: Duration,
    max_output: u64,
    /// None for what reads only a person's own repository.
    memory: Option<u64>,
    operation: String,
}

/// What a call printed.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// Whether more was printed than the bound; git was stopped then.
    pub(crate) truncated: bool,
}

impl Git {
    fn with_location(location: [&OsStr; 2], settings: &[(&str, String)], operation: &str) -> Self {
        let mut args: Vec<OsString> = location.iter().map(|part| (*part).to_owned()).collect();
        for setting in SETTINGS {
            args.extend(["-c".into(), (*setting).into()]);
        }
        for (name, value) in settings {
            args.extend(["-c".into(), format!("{name}={value}").into()]);
        }
        args.push(operation.into());
        Self {
            args,
            env: Vec::new(),
            owner: None,
            stdin: Vec::new(),
            limit: SHORT,
            max_output: OUTPUT_MAX_BYTES,
            memory: Some(SANDBOX_OBJECTS_MEMORY),
            operation: operation.to_owned(),
        }
    }

    /// A call in a directory.
    pub(crate) fn at(dir: &Path, operation: &str) -> Self {
        Self::with_settings(dir, &[], operation)
    }

    /// The same, with settings of its own.
    pub(crate) fn with_settings(dir: &Path, settings: &[(&str, String)], operation: &str) -> Self {
        Self::with_location([OsStr::new("-C"), dir.as_os_str()], settings, operation)
    }

    /// A call on a bare repository.
    pub(crate) fn bare(git_dir: &Path, operation: &str) -> Self {
        Self::with_location([OsStr::new("--git-dir"), git_dir.as_os_str()], &[], operation)
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    pub(crate) fn owner(mut self, owner: Option<Owner>) -> Self {
        self.owner = owner;
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    pub(crate) fn max_output(mut self, bytes: u64) -> Self {
        self.max_output = bytes;
        self
    }

    /// For a call that reads nothing a sandbox made: git may use what it needs.
    pub(crate) fn any_memory(mut self) -> Self {
        self.memory = None;
        self
    }

    /// The name of the operation and its limit, for errors.
    pub(crate) fn timed_out(&self) -> Error {
        Error::Timeout { operation: self.operation.clone(), limit: self.limit }
    }

    pub(crate) fn time_limit(&self) -> Duration {
        self.limit
    }

    pub(crate) fn failed(&self, stderr: &str) -> Error {
        Error::Failed { operation: self.operation.clone(), stderr: presentable(stderr) }
    }

    /// Git; or, for somebody else, whose process we may have no right to bound, what bounds itself and becomes git.
    fn program(&self) -> Command {
        match (self.memory, self.owner) {
            (Some(bytes), Some(_)) => {
                let mut command = Command::new("prlimit");
                command.arg(format!("--data={bytes}")).args(["--", "git"]);
                command
            }
            _ => Command::new("git"),
        }
    }

    /// Starts git with the given ends; it is ended when it is dropped.
    pub(crate) fn spawn(&self, stdin: Stdio, stdout: Stdio) -> Result<Running> {
        let mut command = self.program();
        command.env_clear().current_dir("/").args(&self.args);
        for name in PASSED_ON {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_ASKPASS", "/bin/false")
            .env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
            .env("LC_ALL", "C")
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(owner) = self.owner {
            command.uid(owner.uid).gid(owner.gid).env("HOME", "/nonexistent").env_remove("TMPDIR");
        }
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
        let running = command.spawn().map(Running::new).map_err(Error::io("starting git"))?;
        // Before it is given anything to read.
        if let (Some(bytes), None) = (self.memory, self.owner) {
            running.bound_memory(bytes).map_err(Error::io("bounding git's memory"))?;
        }
        Ok(running)
    }

    /// Runs to the end, whatever the exit status.
    pub(crate) async fn output(mut self) -> Result<Output> {
        let stdin = std::mem::take(&mut self.stdin);
        let work = async {
            let mut child = self.spawn(Stdio::piped(), Stdio::piped())?;
            let (mut to_git, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
            let feed = async {
                if let Some(pipe) = to_git.as_mut() {
                    // Git may stop reading early; what matters then is its exit status.
                    let _ = pipe.write_all(&stdin).await;
                }
                drop(to_git.take());
            };
            let read = async {
                let read = read_bounded(stdout, self.max_output).await;
                if matches!(&read, Ok((_, true))) {
                    let _ = child.start_kill();
                }
                read
            };
            let ((), stdout, stderr) = tokio::join!(feed, read, collect_stderr(stderr));
            let (stdout, truncated) = stdout.map_err(Error::io("reading from git"))?;
            let status = child.wait().await.map_err(Error::io("waiting for git"))?;
            Ok(Output { status, stdout, stderr, truncated })
        };
        match tokio::time::timeout(self.limit, work).await {
            Ok(result) => result,
            Err(_) => Err(self.timed_out()),
        }
    }

    /// Runs to the end; any exit status but 0 is an error with what git printed.
    pub(crate) async fn bytes(self) -> Result<Vec<u8>> {
        let operation = self.operation.clone();
        let output = self.output().await?;
        if output.status.success() && !output.truncated {
            return Ok(output.stdout);
        }
        let stderr = if output.truncated { "printed more than is allowed" } else { &output.stderr };
        Err(Error::Failed { operation, stderr: presentable(stderr) })
    }

    /// Like [`Git::bytes`], as text without the last line break.
    pub(crate) async fn text(self) -> Result<String> {
        let bytes = self.bytes().await?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
    }

    /// Whether git exits with 0; 1 means no, anything else is an error.
    pub(crate) async fn holds(self) -> Result<bool> {
        let operation = self.operation.clone();
        let output = self.output().await?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(Error::Failed { operation, stderr: presentable(&output.stderr) }),
        }
    }
}

async fn read_bounded(pipe: Option<impl AsyncRead + Unpin>, max: u64) -> std::io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(max + 1).read_to_end(&mut bytes).await?;
    }
    let bound = usize::try_from(max).unwrap_or(usize::MAX);
    let truncated = bytes.len() > bound;
    bytes.truncate(bound);
    Ok((bytes, truncated))
}

/// Keeps the first part of what git complains about and reads the rest away, so that git never blocks on it.
pub(crate) async fn collect_stderr(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut pipe) = pipe else { return String::new() };
    let mut bytes = Vec::new();
    if (&mut pipe).take(STDERR_MAX_BYTES).read_to_end(&mut bytes).await.is_ok() {
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Trims, shortens and takes credentials out of what git printed.
pub(crate) fn presentable(stderr: &str) -> String {
    let mut text = String::new();
    for word in stderr.trim().split_inclusive(char::is_whitespace) {
        match word.split_once("://").and_then(|(scheme, rest)| {
            let authority_end = rest.find('/').unwrap_or(rest.len());
            rest[..authority_end].rfind('@').map(|at| format!("{scheme}://***@{}", &rest[at + 1..]))
        }) {
            Some(redacted) => text.push_str(&redacted),
            None => text.push_str(word),
        }
    }
    if text.is_empty() {
        return "ended without a word".to_owned();
    }
    text.chars().take(STDERR_SHOWN_CHARS).collect()
}

/// A path as git takes it on the command line: absolute.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(Error::io(format!("making {} absolute", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_taken_out_of_complaints() {
        let shown = presentable("fatal: unable to access 'https://joe:s3cret@host/x.git/': no\n");
        assert_eq!(shown, "fatal: unable to access 'https://***@host/x.git/': no");
        assert_eq!(presentable(" \n"), "ended without a word");
    }
}
