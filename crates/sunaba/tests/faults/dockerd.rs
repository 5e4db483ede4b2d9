//! A container daemon that the test itself started, so that it can be killed and started again.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::sandboxes::victims::{processes, words};

pub(crate) const IMAGE: &str = "sunaba-faults";
/// How long it may take to be ready, to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// `{"label":["io.sunaba.sandbox"]}`: everything of sandboxes carries this label.
const OURS: &str = "filters=%7B%22label%22%3A%5B%22io.sunaba.sandbox%22%5D%7D";

/// A daemon under attack; ended and removed when dropped.
pub(crate) struct Dockerd {
    child: Child,
    dir: tempfile::TempDir,
}

impl Dockerd {
    /// Starts one and gives it an image. The error says why none can run here.
    pub(crate) fn start() -> anyhow::Result<Self> {
        ensure!(nix::unistd::geteuid().is_root(), "a container daemon of the test's own needs root");
        let dir = tempfile::Builder::new().prefix("sunaba-faults-").tempdir()?;
        let mut daemon = Self { child: spawn(dir.path())?, dir };
        daemon.wait_until_ready()?;
        daemon.import_image().context("make the image")?;
        Ok(daemon)
    }

    /// Where it listens.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    /// Ends it without warning and starts it again on the same data.
    pub(crate) fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        for _ in 0..5 {
            self.child = spawn(self.dir.path())?;
            // It may find its helper in the middle of its end and give up.
            if self.wait_until_ready().is_ok() {
                return Ok(());
            }
            let _ = self.child.kill();
            self.child.wait()?;
        }
        bail!("dockerd does not start again: {}", self.last_words())
    }

    /// Every container of sandboxes.
    pub(crate) fn containers(&self) -> anyhow::Result<Vec<String>> {
        let list = self.ask("GET", &format!("/containers/json?all=1&{OURS}"))?;
        let list = list.as_array().context("a list of containers")?;
        Ok(list.iter().filter_map(|container| container["Id"].as_str().map(str::to_owned)).collect())
    }

    /// Every volume of sandboxes.
    pub(crate) fn volumes(&self) -> anyhow::Result<Vec<String>> {
        let list = self.ask("GET", &format!("/volumes?{OURS}"))?;
        let list = list["Volumes"].as_array().cloned().unwrap_or_default();
        Ok(list.iter().filter_map(|volume| volume["Name"].as_str().map(str::to_owned)).collect())
    }

    /// The first process of a container that runs.
    pub(crate) fn init_of(&self, container: &str) -> Option<i32> {
        let shown = self.ask("GET", &format!("/containers/{container}/json")).ok()?;
        shown["State"]["Pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 1)
    }

    /// As `docker kill` does it; whether it ran.
    pub(crate) fn kill_container(&self, container: &str) -> bool {
        self.ask("POST", &format!("/containers/{container}/kill")).is_ok()
    }

    fn ask(&self, method: &str, path: &str) -> anyhow::Result<Value> {
        let mut stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "{method} {path} HTTP/1.0\r\nHost: docker\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("a whole answer")?;
        ensure!(head.split(' ').nth(1).is_some_and(|code| code.starts_with('2')), "{path}: {head} {body}");
        Ok(serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.ask("GET", "/_ping").is_err() {
            if self.child.try_wait()?.is_some() || began.elapsed() > PATIENCE {
                bail!("dockerd does not run: {}", self.last_words());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(3)..].join(" | ")
    }

    fn import_image(&self) -> anyhow::Result<()> {
        let tar = self.dir.path().join("image.tar");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test-image");
        let made = Command::new(script).stdout(fs::File::create(&tar)?).status()?;
        ensure!(made.success(), "scripts/test-image: {made}");
        let mut stream = UnixStream::connect(self.socket())?;
        let bytes = fs::metadata(&tar)?.len();
        write!(
            stream,
            "POST /images/create?fromSrc=-&repo={IMAGE}&tag=latest HTTP/1.0\r\nHost: docker\r\n\
             Content-Type: application/x-tar\r\nContent-Length: {bytes}\r\n\r\n"
        )?;
        std::io::copy(&mut fs::File::open(&tar)?, &mut stream)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.contains(" 200 ") && !answer.contains("\"error\""), "{answer}");
        Ok(fs::remove_file(tar)?)
    }

    /// Its helpers and theirs, which outlive it when it is killed.
    fn helpers(&self) -> Vec<i32> {
        let own = self.dir.path().to_string_lossy().into_owned();
        let of_it = |pid: &i32| words(*pid).iter().any(|word| word.contains(&own));
        processes().filter(|pid| u32::try_from(*pid).ok() != Some(self.child.id())).filter(of_it).collect()
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        use nix::sys::signal::{Signal, kill};
        use nix::unistd::Pid;
        kill(Pid::from_raw(self.child.id().try_into()?), Signal::SIGTERM)?;
        let began = Instant::now();
        while self.child.try_wait()?.is_none() && began.elapsed() < PATIENCE {
            std::thread::sleep(POLL);
        }
        let _ = self.child.kill();
        self.child.wait()?;
        for pid in self.helpers() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let table = fs::read_to_string("/proc/self/mounts")?;
        let places = table.lines().rev().filter_map(|line| line.split(' ').nth(1));
        for place in places.filter(|place| Path::new(place).starts_with(self.dir.path())) {
            Command::new("umount").args(["--lazy", place]).status()?;
        }
        let name = group_of(self.dir.path());
        let top = PathBuf::from("/sys/fs/cgroup");
        let hierarchies = fs::read_dir(&top)?.flatten().map(|entry| entry.path());
        for group in hierarchies.chain([top]).map(|hierarchy| hierarchy.join(&name)) {
            // One of a container too, if the daemon was killed before it could remove it.
            for entry in fs::read_dir(&group).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(entry.path());
            }
            let _ = fs::remove_dir(group);
        }
        Ok(())
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        let stopped = self.stop();
        assert!(stopped.is_ok() || std::thread::panicking(), "the daemon left something: {stopped:?}");
    }
}

fn group_of(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// It touches nothing of the host's networks, and ends with this process.
fn spawn(dir: &Path) -> anyhow::Result<Child> {
    let places = ["/usr/sbin", "/usr/bin", "/usr/local/bin"].map(|place| Path::new(place).join("dockerd"));
    let program = places.iter().find(|path| path.is_file()).context("dockerd is not installed")?;
    let log = fs::File::options().create(true).append(true).open(dir.join("log"))?;
    Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "--"])
        .arg(program)
        .arg("--data-root")
        .arg(dir.join("data"))
        .arg("--exec-root")
        .arg(dir.join("exec"))
        .arg("--pidfile")
        .arg(dir.join("pid"))
        .arg("--host")
        .arg(format!("unix://{}", dir.join("sock").display()))
        .args(["--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"])
        .args(["--ip-masq=false", "--userland-proxy=false", "--cgroup-parent"])
        .arg(format!("/{}", group_of(dir)))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("start dockerd")
}
