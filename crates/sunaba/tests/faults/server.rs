//! A real server process that can be killed and started again on the same data.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::api::http_client;
use crate::leavings;

/// How long a start may take, also beside other work.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A server under attack.
pub(crate) struct Server {
    data: PathBuf,
    port: u16,
    environment: Vec<(&'static str, String)>,
    child: Child,
}

impl Server {
    /// Starts one on a free port and waits until it is ready.
    pub(crate) async fn start(data: &Path) -> anyhow::Result<Self> {
        Self::start_with(data, &[]).await
    }

    /// The same, with more settings.
    pub(crate) async fn start_with(
        data: &Path,
        environment: &[(&'static str, String)],
    ) -> anyhow::Result<Self> {
        let child = spawn(data, 0, environment)?;
        let mut server = Self { data: data.to_owned(), port: 0, environment: environment.to_vec(), child };
        server.wait_until_ready().await?;
        Ok(server)
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where it listens, also after a restart.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The admin token, as the first start wrote it.
    pub(crate) fn token(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.data.join("admin-token"))?.trim().to_owned())
    }

    /// Its data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Ends it without warning and starts it again on the same data and port.
    pub(crate) async fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.kill().await?;
        self.restart().await
    }

    /// Ends it without warning.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("kill -9")
    }

    /// Starts it again, after its end, on the same data and port.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        self.child = spawn(&self.data, self.port, &self.environment)?;
        self.wait_until_ready().await
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.child.id().context("it runs")?;
        Ok(kill(Pid::from_raw(pid.try_into()?), signal)?)
    }

    /// Ends it in order.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::SIGTERM)?;
        let status = tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await??;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }

    /// The port of this very process, once it has one: another server may have been given the port of a killed one.
    fn announced(&self) -> Option<u16> {
        let text = std::fs::read_to_string(self.data.join("server.json")).ok()?;
        let announced: serde_json::Value = serde_json::from_str(&text).ok()?;
        (announced["pid"].as_u64() == self.child.id().map(u64::from)).then_some(())?;
        announced["url"].as_str()?.rsplit(':').next()?.parse().ok()
    }

    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let client = http_client();
        let began = Instant::now();
        while began.elapsed() < START_LIMIT {
            if let Some(port) = self.announced() {
                self.port = port;
                let asked = client.get(format!("{}/readyz", self.url())).timeout(START_LIMIT).send();
                if let Ok(answer) = asked.await
                    && answer.status().is_success()
                {
                    return Ok(());
                }
            }
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(self.data.join("serve-test.log")).unwrap_or_default();
                bail!("the server ended at its start: {status}\n{log}");
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let log = std::fs::read_to_string(self.data.join("serve-test.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(20)..].join("\n");
        bail!("the server was not ready within {START_LIMIT:?}\n{tail}")
    }
}

impl Drop for Server {
    /// Its sandboxes outlive it; a test must leave none.
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        leavings::clear(&self.data);
    }
}

fn spawn(data: &Path, port: u16, environment: &[(&'static str, String)]) -> anyhow::Result<Child> {
    let log = std::fs::File::options().create(true).append(true).open(data.join("serve-test.log"))?;
    Command::new(env!("CARGO_BIN_EXE_sunaba"))
        .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--data"])
        .arg(data)
        .envs(sunaba_testkit::store_environment(data))
        .env("FOLLOW_UP_MINUTES", "0")
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .context("cannot start the server")
}
