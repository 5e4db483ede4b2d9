//! A real server in one of the worlds.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::decoys::{Decoys, USER, as_user, is_root};

/// Processes of one sandbox: enough for the attempts, fewer than one of them asks for.
const PROCESSES: u32 = 200;

/// Where sandboxes are made, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By bubblewrap, from a server that runs as root.
    LocalAsRoot,
    /// By bubblewrap, from a server that runs as an ordinary user.
    LocalAsUser,
    /// By a container daemon.
    Docker,
}

impl Kind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::LocalAsRoot => "local as root",
            Self::LocalAsUser => "local as an ordinary user",
            Self::Docker => "docker",
        }
    }
}

/// What must never be seen inside.
pub(crate) struct Keys {
    pub(crate) anthropic: String,
    pub(crate) openai: String,
    pub(crate) google: String,
    pub(crate) github: String,
    pub(crate) secret_key: String,
    pub(crate) project_secret: String,
}

/// A server, its data and its keys.
pub(crate) struct World {
    pub(crate) kind: Kind,
    pub(crate) decoys: Decoys,
    pub(crate) keys: Keys,
    pub(crate) url: String,
    pub(crate) admin: String,
    server: Child,
    pub(crate) client: reqwest::Client,
    /// Every sandbox that was started: they outlive their server.
    pub(crate) started: Mutex<Vec<String>>,
    /// What is run, and as whom.
    program: Vec<String>,
    daemon: Option<Daemon>,
}

/// A container daemon and the image of its sandboxes.
#[derive(Debug, Clone)]
pub(crate) struct Daemon {
    pub(crate) host: String,
    pub(crate) image: String,
}

impl World {
    /// Starts the server and waits for its first line.
    pub(crate) fn start(kind: Kind, daemon: Option<&Daemon>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let decoys = Decoys::make();
        let random = || uuid::Uuid::new_v4().simple().to_string();
        let keys = Keys {
            anthropic: format!("sk-ant-{}", random()),
            openai: format!("sk-oai-{}", random()),
            google: format!("AIza-{}", random()),
            github: format!("ghp-{}", random()),
            project_secret: format!("project-{}", random()),
            // 32 bytes in base64.
            secret_key: format!("{}{}A=", random(), &random()[..10]),
        };
        let daemon = daemon.cloned();
        let program = program_for(kind, &decoys);
        let (server, url) = serve(&program, &decoys, &keys, daemon.as_ref(), "127.0.0.1:0");
        let admin = std::fs::read_to_string(decoys.path("data/admin-token")).unwrap().trim().to_owned();
        let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
        Self { kind, decoys, keys, url, admin, server, client, started: Mutex::default(), program, daemon }
    }

    /// Ends the server, does something to what it left, and starts it again in its place.
    pub(crate) fn restart(&mut self, meanwhile: impl FnOnce(&Self)) {
        self.stop();
        meanwhile(self);
        let address = self.url.trim_start_matches("http://");
        let (server, url) = serve(&self.program, &self.decoys, &self.keys, self.daemon.as_ref(), address);
        assert_eq!(url, self.url);
        self.server = server;
    }

    /// A server keeps the mount that its sandboxes' disks have in common for its next start; there is none here.
    fn unmount(&self) {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = mounts.lines().rev().filter_map(|line| line.split(' ').nth(1));
        for place in places.filter(|place| Path::new(place).starts_with(self.decoys.path("data"))) {
            let _ = Command::new("umount").args(["--lazy", place]).status();
        }
    }

    /// In order, so that it ends what it started.
    fn stop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.server.id().try_into().unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let started = Instant::now();
        while self.server.try_wait().is_ok_and(|ended| ended.is_none()) {
            if started.elapsed() > Duration::from_secs(20) {
                let _ = self.server.kill();
                let _ = self.server.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.server.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.server.try_wait().unwrap().is_none()
    }

    /// Whether the server runs as root.
    pub(crate) fn server_is_root(&self) -> bool {
        is_root() && self.kind != Kind::LocalAsUser
    }

    /// Asks the server as an administrator.
    pub(crate) async fn ask(&self, method: reqwest::Method, path: &str, body: Option<&Value>) -> Value {
        let mut request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.admin);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}\n{}", self.log());
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.ask(reqwest::Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        self.ask(reqwest::Method::POST, path, Some(body)).await
    }

    /// What the server logged, and what holds its sandboxes.
    pub(crate) fn log(&self) -> String {
        let shims = std::process::Command::new("bash")
            .args(["-c", "tail -n 20 sandboxes/*/shim.log logs/*"])
            .current_dir(self.decoys.path("data"))
            .output()
            .unwrap();
        let server = std::fs::read_to_string(self.decoys.path("server.log")).unwrap_or_default();
        let cut = server.len().saturating_sub(8000);
        let server = server.get(cut..).unwrap_or_default();
        format!("{server}{}", String::from_utf8_lossy(&shims.stdout))
    }

    /// Ends a sandbox.
    pub(crate) async fn end(&self, id: &str) {
        // One that has come to its end meanwhile cannot be ended.
        let url = format!("{}/api/v1/sandboxes/{id}", self.url);
        let _ = self.client.delete(url).bearer_auth(&self.admin).send().await.unwrap();
        self.until_over(id).await;
    }

    /// Ends every sandbox; what of them is left on the host a while later.
    pub(crate) async fn close(&self) -> Vec<String> {
        let started = std::mem::take(&mut *self.started.lock().unwrap());
        for id in &started {
            let url = format!("{}/api/v1/sandboxes/{id}", self.url);
            // One that has come to its end meanwhile cannot be ended.
            let _ = self.client.delete(url).bearer_auth(&self.admin).send().await.unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let left = self.processes_of(&started);
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Processes on the host that were started for sandboxes of this server.
    fn processes_of(&self, sandboxes: &[String]) -> Vec<String> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        lines.filter(|line| sandboxes.iter().any(|id| line.contains(id))).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A test that failed half-way: its sandboxes would outlive it.
        for id in self.started.lock().map(|mut started| std::mem::take(&mut *started)).unwrap_or_default() {
            let bearer = format!("Authorization: Bearer {}", self.admin);
            let url = format!("{}/api/v1/sandboxes/{id}", self.url);
            let _ =
                Command::new("curl").args(["-s", "-m", "20", "-X", "DELETE", "-H", &bearer, &url]).output();
        }
        self.stop();
        self.unmount();
    }
}

/// Starts a server and waits for its first line.
fn serve(
    program: &[String],
    decoys: &Decoys,
    keys: &Keys,
    daemon: Option<&Daemon>,
    address: &str,
) -> (Child, String) {
    let log = decoys.path("server.log");
    let mut command = Command::new(&program[0]);
    command
        .args(&program[1..])
        .args(["serve", "--listen", address, "--json"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", decoys.path("home"))
        .env("SUNABA_DATA", decoys.path("data"))
        .env("ANTHROPIC_API_KEY", &keys.anthropic)
        .env("OPENAI_API_KEY", &keys.openai)
        .env("GEMINI_API_KEY", &keys.google)
        .env("GITHUB_TOKEN", &keys.github)
        .env("SUNABA_SECRET_KEY", &keys.secret_key)
        .env("SANDBOX_ISOLATION", "any")
        .env("FOLLOW_UP_MINUTES", "0")
        .env("SANDBOX_PIDS", PROCESSES.to_string());
    if let Some(Daemon { host, image }) = daemon {
        command.env("DOCKER_HOST", host).env("SANDBOX_IMAGE", image).env("SANDBOX_PROVIDER", "docker");
    }
    let errors = std::fs::File::options().create(true).append(true).open(&log).unwrap();
    let mut server = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let announced: Value = serde_json::from_str(&line).unwrap_or_default();
    let Some(url) = announced["url"].as_str() else {
        panic!("the server did not start: {line}{}", std::fs::read_to_string(&log).unwrap())
    };
    (server, url.to_owned())
}

/// The program as the world's user. An ordinary user gets copies, which it can read wherever the tests were built.
fn program_for(kind: Kind, decoys: &Decoys) -> Vec<String> {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_sunaba"));
    let (bin, data) = (decoys.path("bin"), decoys.path("data"));
    std::fs::create_dir(&data).unwrap();
    if kind != Kind::LocalAsUser || !is_root() {
        return vec![built.to_str().unwrap().to_owned()];
    }
    std::fs::create_dir(&bin).unwrap();
    for name in ["sunaba", "sunaba-worker"] {
        std::fs::copy(built.with_file_name(name), bin.join(name)).unwrap();
    }
    std::os::unix::fs::chown(&data, Some(USER), Some(USER)).unwrap();
    let command = as_user(bin.join("sunaba").to_str().unwrap());
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_str().unwrap().to_owned()).collect()
}
