//! Starts servers and runs commands, each bounded in time and ended with its test.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::leavings;

/// How long anything here may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The program with a clean environment, a data directory and the store that tests run on.
pub(crate) fn sunaba(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sunaba"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("SUNABA_DATA", data);
    // Only tests of follow-ups wait for one.
    command.env("FOLLOW_UP_MINUTES", "0");
    command.envs(sunaba_testkit::store_environment(data)).stdin(Stdio::null());
    command
}

/// A server process on a data directory of its own.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) data: tempfile::TempDir,
    pub(crate) url: String,
}

impl Server {
    /// Starts one at a free port and waits for its first line.
    pub(crate) fn start(more: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut command = sunaba(data.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).args(more);
        Self::of(command, data)
    }

    /// Starts one with this command, which says `--json`, and waits for its first line.
    pub(crate) fn of(mut command: Command, data: tempfile::TempDir) -> Self {
        let (child, url) = started(&mut command, data.path());
        Self { child, data, url }
    }

    /// Starts one again in its data directory, after its end, with this command.
    pub(crate) fn restart(&mut self, command: &mut Command) {
        (self.child, self.url) = started(command, self.data.path());
    }

    /// Runs a client command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(sunaba(self.data.path()).args(arguments))
    }

    /// Runs a client command that must succeed; gives its JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[arguments, &["--json"]].concat());
        ran.expect_code(0);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
    }

    /// The admin token.
    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(self.data.path().join("admin-token")).unwrap().trim().to_owned()
    }

    /// What it logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.data.path().join("test.log")).unwrap()
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        wait(&mut self.child)
    }

    /// Posts an event as an admin; an unknown sandbox is registered by it.
    pub(crate) async fn post_event(&self, sandbox: &str, event_type: &str, event_data: Value) -> Value {
        let body = serde_json::json!({ "event_type": event_type, "event_data": event_data });
        self.post(&format!("/api/v1/sandboxes/{sandbox}/events"), &body).await
    }

    /// Posts JSON as an admin.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let request = http().post(format!("{}{path}", self.url)).bearer_auth(self.token()).json(body);
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.json().await.unwrap()
    }
}

/// Starts a server and waits for its first line; gives its address.
fn started(command: &mut Command, data: &Path) -> (Child, String) {
    let log = std::fs::File::options().create(true).append(true).open(data.join("test.log")).unwrap();
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let announced: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
        let log = std::fs::read_to_string(data.join("test.log")).unwrap();
        panic!("the server did not start: {error}\n{line}{log}")
    });
    (child, announced["url"].as_str().unwrap().to_owned())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        leavings::clear(self.data.path());
    }
}

/// An HTTP client.
pub(crate) fn http() -> reqwest::Client {
    // The second of two tests in one process finds it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().timeout(DEADLINE).build().unwrap()
}

/// Waits for the end of a process, which must come.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > DEADLINE {
            let _ = child.kill();
            panic!("process {} did not end", child.id());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until something holds, which must come.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < DEADLINE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A command that came to its end.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Runs a command.
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::with_input(command, "")
    }

    /// Runs a command that reads this.
    pub(crate) fn with_input(command: &mut Command, input: &str) -> Self {
        let input = input.to_owned();
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that reads nothing closes its end.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        Self::from(child.wait_with_output().unwrap())
    }

    /// Fails with everything it said unless it ended with this code.
    pub(crate) fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A repository with one commit.
pub(crate) fn repository(dir: &Path) -> PathBuf {
    repository_of(dir, "sha1")
}

/// The same with ids of this kind.
pub(crate) fn repository_of(dir: &Path, format: &str) -> PathBuf {
    let repo = dir.join("repo");
    std::fs::create_dir(&repo).unwrap();
    std::fs::write(repo.join("README.md"), "# it\n").unwrap();
    let format = format!("--object-format={format}");
    git(&repo, &["init", "--quiet", "--initial-branch=main", &format]);
    git(&repo, &["add", "."]);
    git(
        &repo,
        &["-c", "user.name=t", "-c", "user.email=t@sunaba.invalid", "commit", "--quiet", "-m", "start"],
    );
    repo
}

/// Runs git, which must succeed.
pub(crate) fn git(repo: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(repo).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
