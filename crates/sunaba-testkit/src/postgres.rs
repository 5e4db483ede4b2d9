//! A throwaway PostgreSQL server, as durable as a real one.
//!
//! Several test programs may share one: `SUNABA_TEST_POSTGRES` names the port of a server that whoever starts
//! them keeps.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::keeper::{Keeper, free_port};

/// PostgreSQL refuses to run as root; as root it runs as nobody.
const NOBODY: u32 = 65534;
const START_LIMIT: Duration = Duration::from_secs(30);
/// The port of the server that several test programs share.
pub(crate) const PORT: &str = "SUNABA_TEST_POSTGRES";

/// A server of its own directory and port, with fsync and synchronous_commit on.
#[derive(Debug)]
pub struct Postgres {
    port: u16,
    /// None for a server that somebody else keeps.
    keeper: Option<Keeper>,
    databases: AtomicU32,
}

impl Postgres {
    /// The server that all tests of this process share; it ends with the process, or with whoever keeps it.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var(PORT) {
            Ok(port) => {
                let port = port.parse().expect("a port in SUNABA_TEST_POSTGRES");
                Self { port, keeper: None, databases: AtomicU32::new(0) }
            }
            Err(_) => Self::start(),
        })
    }

    /// Where it listens on 127.0.0.1.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// A server that ends when it is dropped.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with settings of its own (`synchronous_commit=off`).
    pub fn start_with(settings: &[&str]) -> Self {
        let directory = make_directory();
        initdb(&directory.join("data"));
        let port = free_port();
        let mut command = as_server("postgres");
        command.push("-D".into());
        command.push(directory.join("data").display().to_string());
        let sockets = format!("unix_socket_directories={}", directory.display());
        let port_setting = format!("port={port}");
        let usual =
            ["listen_addresses=127.0.0.1", "max_connections=300", "fsync=on", "synchronous_commit=on"];
        for setting in
            [sockets.as_str(), &port_setting].into_iter().chain(usual).chain(settings.iter().copied())
        {
            command.extend(["-c".into(), setting.to_owned()]);
        }
        let keeper = Some(Keeper::new(directory, &command, "QUIT"));
        let server = Self { port, keeper, databases: AtomicU32::new(0) };
        server.revive();
        server
    }

    /// Makes an empty database and gives its address.
    pub fn database(&self) -> String {
        self.database_like("template0")
    }

    /// Makes a database as another one is that nobody uses at the moment, and gives its address.
    pub fn database_like(&self, template: &str) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        self.execute("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}"));
        self.url(&name)
    }

    /// The address of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs SQL from outside, with PostgreSQL's own client; gives what that says (`UPDATE 1`).
    pub fn execute(&self, database: &str, sql: &str) -> String {
        let run = Command::new(program("psql"))
            .args(["-X", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-c", sql])
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .output()
            .expect("psql runs");
        assert!(run.status.success(), "{sql}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8_lossy(&run.stdout).trim().to_owned()
    }

    /// Makes a user who, unlike everybody else here, needs a password.
    pub fn add_user(&self, name: &str, password: &str) {
        self.execute("postgres", &format!("CREATE ROLE {name} LOGIN SUPERUSER PASSWORD '{password}'"));
        let file = self.own().directory().join("data/pg_hba.conf");
        let rules = std::fs::read_to_string(&file).expect("the rules");
        let rule = format!("host all {name} 127.0.0.1/32 scram-sha-256\n");
        std::fs::write(&file, rule + &rules).expect("its directory is ours");
        self.execute("postgres", "SELECT pg_reload_conf()");
    }

    fn own(&self) -> &Keeper {
        self.keeper.as_ref().expect("a server of this process's own")
    }

    /// What a server of this process's own has said so far.
    pub fn log(&self) -> String {
        self.own().log()
    }

    /// Kills the server and all it runs at once, as a machine would that loses its power.
    pub fn kill(&self) {
        self.own().tell("kill");
    }

    /// Stops the server and all it runs without ending it: it keeps its connections and answers nobody.
    pub fn pause(&self) {
        self.own().tell("pause");
    }

    /// Lets it go on after [`Postgres::pause`].
    pub fn resume(&self) {
        self.own().tell("resume");
    }

    /// Starts the server on its directory (again) and waits until it takes connections.
    pub fn revive(&self) {
        self.own().tell("start");
        let deadline = Instant::now() + START_LIMIT;
        while !self.is_ready() {
            assert!(Instant::now() < deadline, "PostgreSQL did not start: {}", self.own().log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_ready(&self) -> bool {
        let asked = Command::new(program("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
            .status();
        asked.is_ok_and(|status| status.success())
    }
}

/// A program of the newest PostgreSQL installed.
fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())))
        .filter(|(_, path)| path.join("bin").join(name).is_file())
        .max();
    newest.map_or_else(|| PathBuf::from(name), |(_, path)| path.join("bin").join(name))
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// The words that run a server program as somebody who is not root.
fn as_server(name: &str) -> Vec<String> {
    let program = program(name).display().to_string();
    if !is_root() {
        return vec![program];
    }
    let nobody = NOBODY.to_string();
    ["setpriv", "--reuid", &nobody, "--regid", &nobody, "--clear-groups", &program]
        .map(str::to_owned)
        .to_vec()
}

/// A directory with a short name (it holds a socket) that the server can use.
fn make_directory() -> PathBuf {
    let directory = tempfile::Builder::new().prefix("sunaba-pg-").tempdir_in("/tmp").expect("a directory");
    let path = directory.keep();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("an own directory");
    if is_root() {
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    path
}

fn initdb(data: &Path) {
    let words = as_server("initdb");
    let run = Command::new(&words[0])
        .args(&words[1..])
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"])
        .arg(data)
        .output()
        .expect("PostgreSQL is installed (package postgresql)");
    assert!(run.status.success(), "initdb: {}", String::from_utf8_lossy(&run.stderr));
}
