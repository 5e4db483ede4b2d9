//! A yardstick: what `docker run` takes to run nothing, on a daemon of the benchmark's own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use crate::table::Delays;

const IMAGE: &str = "sunaba-bench:nothing";

/// Starts a throwaway daemon, runs `true` in a container without a network and stops the daemon again.
pub(crate) fn run_nothing(times: usize) -> anyhow::Result<Delays> {
    let daemon = Daemon::start()?;
    daemon.import()?;
    let mut delays = Delays::default();
    for _ in 0..times {
        let started = Instant::now();
        daemon.client(&["run", "--rm", "--network", "none", IMAGE, "/usr/bin/true"])?;
        delays.push(started.elapsed());
    }
    Ok(delays)
}

/// A running daemon; stopped when dropped.
#[derive(Debug)]
struct Daemon {
    child: Child,
    place: TempDir,
}

impl Daemon {
    fn start() -> anyhow::Result<Self> {
        let program = ["/usr/sbin/dockerd", "/usr/bin/dockerd", "/usr/local/bin/dockerd"];
        let program =
            program.iter().find(|path| Path::new(path).exists()).context("dockerd is not installed")?;
        let place = tempfile::tempdir()?;
        let at = |name: &str| place.path().join(name);
        let child = Command::new(program)
            .arg("--data-root")
            .arg(at("data"))
            .arg("--exec-root")
            .arg(at("exec"))
            .arg("--pidfile")
            .arg(at("pid"))
            .args(["--bridge", "none", "--iptables=false", "--ip6tables=false"])
            .args(["-H", &format!("unix://{}", at("sock").display())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(at("log"))?)
            .spawn()
            .context("cannot start dockerd")?;
        let mut daemon = Self { child, place };
        let deadline = Instant::now() + Duration::from_secs(20);
        while daemon.client(&["version"]).is_err() {
            if daemon.child.try_wait()?.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(daemon.place.path().join("log")).unwrap_or_default();
                bail!("dockerd does not run here: {}", log.lines().last().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(daemon)
    }

    /// An image of one program and what it is linked with.
    fn import(&self) -> anyhow::Result<()> {
        let linked = Command::new("ldd").arg("/usr/bin/true").output().context("ldd")?;
        let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
        let libraries = linked.split_whitespace().filter(|word| word.starts_with('/'));
        let archive = self.place.path().join("image.tar");
        let status = Command::new("tar")
            .args(["--dereference", "--create", "--file"])
            .arg(&archive)
            .arg("/usr/bin/true")
            .args(libraries)
            .stderr(Stdio::null())
            .status()?;
        ensure!(status.success(), "tar: {status}");
        self.client(&["import", &archive.to_string_lossy(), IMAGE])
    }

    fn client(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = Command::new("docker")
            .env("DOCKER_HOST", format!("unix://{}", self.place.path().join("sock").display()))
            .args(arguments)
            .output()
            .context("the docker client is not installed")?;
        ensure!(output.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Asked politely: killed outright it would leave containers' mounts behind.
        drop(Command::new("kill").arg(self.child.id().to_string()).status());
        drop(self.child.wait());
    }
}
