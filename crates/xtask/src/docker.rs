//! A container daemon of the tests' own: started beside nothing else, removed without a trace.
//!
//! It has its own data, sockets and cgroup, makes no bridge and touches no firewall rule, and ends with the
//! process that started it. Where none can run, the reason is kept, so that the summary can name what was left out.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::stage::{self, say};

/// Names the daemon for the tests; without it they leave out what needs one.
pub(crate) const HOST: &str = "SUNABA_TEST_DOCKER_HOST";
/// Names the image that was made for them.
const IMAGE: &str = "SUNABA_TEST_DOCKER_IMAGE";
const IMAGE_NAME: &str = "sunaba-test";

const READY: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// A running daemon; stopped and removed when dropped.
pub(crate) struct Daemon {
    child: Child,
    dir: PathBuf,
    cgroup: String,
}

/// Runs one command with a daemon: `xtask docker cargo test -p sunaba-sandbox`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let (program, rest) = arguments.split_first().context("say what to run with a daemon")?;
    let daemon = Daemon::start()?;
    let mut command = Command::new(program);
    daemon.tell(command.args(rest));
    stage::require("with a container daemon", &mut command)
}

impl Daemon {
    /// Starts one and gives it its image. The error says why there is none.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let dockerd = find("dockerd").context("dockerd is not installed (package docker.io)")?;
        if fs::metadata("/proc/self")?.uid() != 0 {
            bail!("a container daemon of the tests' own needs root");
        }
        let name = format!("sunaba-test-{}", std::process::id());
        let dir = std::env::temp_dir().join(&name);
        fs::create_dir_all(&dir)?;
        let log = fs::File::create(dir.join("dockerd.log"))?;
        let child = Command::new("setpriv")
            // Whatever ends this process ends the daemon.
            .args(["--pdeathsig", "TERM", "--"])
            .arg(dockerd)
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
            .arg(format!("/{name}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start dockerd")?;
        let mut daemon = Self { child, dir, cgroup: name };
        daemon.wait_until_ready()?;
        let started = Instant::now();
        daemon.import_image().context("cannot make the tests' image")?;
        say(&format!("a container daemon runs; its image took {:.1} s", started.elapsed().as_secs_f64()))?;
        Ok(daemon)
    }

    /// Tells a command where it is.
    pub(crate) fn tell(&self, command: &mut Command) {
        command.env(HOST, format!("unix://{}", self.socket().display())).env(IMAGE, IMAGE_NAME);
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("sock")
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY;
        while Instant::now() < deadline {
            if ask(&self.socket(), "GET /_ping HTTP/1.0\r\n\r\n").is_ok_and(|answer| answer.contains("OK")) {
                return Ok(());
            }
            if self.child.try_wait()?.is_some() {
                bail!("dockerd ended at once: {}", last_words(&self.dir.join("dockerd.log")));
            }
            std::thread::sleep(POLL);
        }
        bail!("dockerd was not ready within {READY:?}: {}", last_words(&self.dir.join("dockerd.log")))
    }

    fn import_image(&self) -> anyhow::Result<()> {
        let mut maker = Command::new("scripts/test-image").stdout(Stdio::piped()).spawn()?;
        let mut tar = maker.stdout.take().context("its output is piped")?;
        let mut daemon = UnixStream::connect(self.socket())?;
        write!(
            daemon,
            "POST /images/create?fromSrc=-&repo={IMAGE_NAME}&tag=latest HTTP/1.1\r\nHost: docker\r\n\
             Connection: close\r\nTransfer-Encoding: chunked\r\nContent-Type: application/x-tar\r\n\r\n"
        )?;
        let mut piece = vec![0; 1 << 16];
        loop {
            let length = tar.read(&mut piece)?;
            write!(daemon, "{length:x}\r\n")?;
            daemon.write_all(&piece[..length])?;
            daemon.write_all(b"\r\n")?;
            if length == 0 {
                break;
            }
        }
        let made = maker.wait()?;
        let mut answer = String::new();
        daemon.read_to_string(&mut answer)?;
        if !made.success() || !answer.contains(" 200 ") || answer.contains("\"error\"") {
            bail!("scripts/test-image: {made}; dockerd: {answer}");
        }
        Ok(())
    }

    /// The devices of its networks, which it would leave behind.
    fn bridges(&self) -> Vec<String> {
        let networks = ask(&self.socket(), "GET /networks HTTP/1.0\r\n\r\n").unwrap_or_default();
        let ids = networks.split("\"Id\":\"").skip(1).filter_map(|rest| rest.get(..12));
        ids.map(|id| format!("br-{id}")).collect()
    }

    /// Asks it to end, which ends its containers, and ends it if it does not.
    fn stop(&mut self) -> anyhow::Result<()> {
        let bridges = self.bridges();
        signal("TERM", self.child.id())?;
        let deadline = Instant::now() + STOP;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= deadline {
                self.child.kill()?;
                self.child.wait()?;
                break;
            }
            std::thread::sleep(POLL);
        }
        // Its own helper ends with it, unless it was ended by force.
        let helper = fs::read_to_string(self.dir.join("exec/containerd/containerd.pid"));
        if let Some(pid) = helper.ok().and_then(|text| text.trim().parse::<u32>().ok())
            && fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.contains(&*self.dir.to_string_lossy()))
        {
            signal("KILL", pid)?;
        }
        for bridge in bridges {
            // Gone already, unless a test that failed left its network behind.
            let _ = Command::new("ip").args(["link", "delete", &bridge]).stderr(Stdio::null()).status();
        }
        unmount_below(&self.dir)?;
        remove_cgroups(&self.cgroup);
        fs::remove_dir_all(&self.dir).with_context(|| format!("remove {}", self.dir.display()))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            drop(say(&format!("the container daemon left something behind: {error:#}")));
        }
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|dir| dir.join(program)).find(|path| path.is_file())
}

fn ask(socket: &Path, request: &str) -> anyhow::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(READY))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn signal(name: &str, pid: u32) -> anyhow::Result<()> {
    Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status()?;
    Ok(())
}

fn last_words(log: &Path) -> String {
    let Ok(file) = fs::File::open(log) else { return String::new() };
    let lines: Vec<_> = BufReader::new(file).lines().map_while(Result::ok).collect();
    lines.iter().rev().take(3).rev().cloned().collect::<Vec<_>>().join(" | ")
}

/// What is still mounted in the directory, the deepest first.
fn unmount_below(dir: &Path) -> anyhow::Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let below =
        table.lines().filter_map(|line| line.split(' ').nth(4)).filter(|at| Path::new(at).starts_with(dir));
    for at in below.collect::<Vec<_>>().into_iter().rev() {
        Command::new("umount").arg("--lazy").arg(at).status()?;
    }
    Ok(())
}

/// The group of its containers, empty by now, in every hierarchy.
fn remove_cgroups(name: &str) {
    let Ok(hierarchies) = fs::read_dir("/sys/fs/cgroup") else { return };
    for hierarchy in hierarchies.flatten() {
        let _ = fs::remove_dir(hierarchy.path().join(name));
    }
    let _ = fs::remove_dir(Path::new("/sys/fs/cgroup").join(name));
}
