//! The release server in a directory of its own.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;

/// What a server is started with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup {
    arguments: Vec<&'static str>,
    env: Vec<(&'static str, String)>,
    data: Option<Arc<TempDir>>,
}

impl Setup {
    /// Every caller counts as the sandbox itself.
    pub(crate) fn without_auth(mut self) -> Self {
        self.arguments.extend(["--auth", "off"]);
        self
    }

    /// It takes up no sandbox: what waits keeps waiting.
    pub(crate) fn api_only(mut self) -> Self {
        self.arguments.extend(["--roles", "api"]);
        self
    }

    /// With a setting in its environment.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// On a directory that may have been used before.
    pub(crate) fn in_directory(mut self, data: &Arc<TempDir>) -> Self {
        self.data = Some(Arc::clone(data));
        self
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn start(self) -> anyhow::Result<Server> {
        let data = match self.data {
            Some(data) => data,
            None => Arc::new(tempfile::tempdir()?),
        };
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let authority = format!("127.0.0.1:{port}");
        let started = Instant::now();
        let child = Command::new(program("sunaba")?)
            .args(["serve", "--listen", &authority, "--data"])
            .arg(data.path())
            .args(&self.arguments)
            .env_remove("DATABASE_URL")
            .env_remove("REDIS_URL")
            .env("RUST_LOG", "warn")
            .env("FOLLOW_UP_MINUTES", "0")
            .envs(self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(data.path().join(LOG))?)
            .spawn()
            .context("cannot start the server")?;
        let mut server = Server { child, authority, token: String::new(), ready_after: Duration::ZERO, data };
        server.wait_until_ready().await.with_context(|| server.log())?;
        server.ready_after = started.elapsed();
        let token = std::fs::read_to_string(server.data.path().join("admin-token")).unwrap_or_default();
        server.token = token.trim().to_owned();
        Ok(server)
    }
}

/// Where a server's own words go.
const LOG: &str = "bench.log";

/// A running server; stopped when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) authority: String,
    pub(crate) token: String,
    pub(crate) ready_after: Duration,
    data: Arc<TempDir>,
}

impl Server {
    /// Starts one that asks for tokens.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Setup::default().start().await
    }

    /// Starts one whose gateway sends model calls to `upstream`.
    pub(crate) async fn start_with_model_at(upstream: &str) -> anyhow::Result<Self> {
        let setup = Setup::default().with("ANTHROPIC_BASE_URL", upstream).with("MAX_TURNS", "10000");
        setup.with("ANTHROPIC_API_KEY", "not-a-key").start().await
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.data.path().join(LOG)).unwrap_or_default();
        format!("the server said: {}", log.trim())
    }

    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if let Ok(mut connection) = crate::client::Connection::open(&self.authority, "").await
                && connection.get("/readyz").await.is_ok()
            {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at its start: {status}");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        bail!("the server was not ready within 20 s")
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<crate::client::Connection> {
        crate::client::Connection::open(&self.authority, &self.token).await
    }

    /// Where it keeps everything.
    pub(crate) fn data_directory(&self) -> PathBuf {
        self.data.path().to_owned()
    }

    /// Resident memory in MiB.
    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
        let kib: f64 = line.split_whitespace().nth(1).context("VmRSS")?.parse()?;
        Ok(kib / 1024.0)
    }
}

/// How long an orderly end may take.
const END_WITHIN: Duration = Duration::from_secs(15);

impl Drop for Server {
    /// An orderly end: it takes its mounts and control groups along.
    fn drop(&mut self) {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let deadline = Instant::now() + END_WITHIN;
        while asked.as_ref().is_ok_and(ExitStatus::success) && Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A program built beside this one.
pub(crate) fn program(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    anyhow::ensure!(path.exists(), "{} is missing; run make bench, which builds it", path.display());
    Ok(path)
}
