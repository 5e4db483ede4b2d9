//! Several servers, each with a data directory of its own, on one database.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use sunaba_secrets::SecretKey;
use sunaba_testkit::{Postgres, Proxy, Redis};

use crate::support::{Ran, Server, http, repository, sunaba, until};

/// 32 bytes in base64.
pub(crate) const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Does nothing more until it is told something.
pub(crate) const STEERED: &str = "
- text: I count first.
  tools:
    - shell: for i in 1 2 3 4 5 6; do echo tick $i; sleep 0.25; done
- expect:
    - request_contains: please also b.txt
  tools:
    - write: {path: a.txt, content: \"a\\n\"}
    - write: {path: b.txt, content: \"b\\n\"}
- text: Done.
";

/// A database, mostly a Redis, and what servers on them are started with.
pub(crate) struct Installation {
    postgres: &'static Postgres,
    database: String,
    redis: Option<Redis>,
}

impl Installation {
    pub(crate) fn start() -> Self {
        Self { redis: Some(Redis::start()), ..Self::without_redis() }
    }

    pub(crate) fn without_redis() -> Self {
        let postgres = Postgres::shared();
        Self { postgres, database: postgres.database(), redis: None }
    }

    /// One whose servers reach the database through a piece of network that can be cut.
    pub(crate) async fn behind_proxy() -> (Self, Proxy) {
        let installation = Self::without_redis();
        let port = installation.postgres.port();
        let proxy = Proxy::start((Ipv4Addr::LOCALHOST, port).into()).await;
        let through = format!(":{}/", proxy.address().port());
        let database = installation.database.replacen(&format!(":{port}/"), &through, 1);
        (Self { database, ..installation }, proxy)
    }

    pub(crate) fn serve(&self, data: &Path, more: &[&str]) -> Command {
        let mut command = sunaba(data);
        command.args(["serve", "--json"]).args(more);
        command.env("DATABASE_URL", &self.database).env("SUNABA_SECRET_KEY", KEY);
        if let Some(redis) = &self.redis {
            command.env("REDIS_URL", redis.url());
        }
        command
    }

    pub(crate) fn node(&self, more: &[&str]) -> Server {
        let data = tempfile::tempdir().unwrap();
        let mut command = self.serve(data.path(), more);
        command.args(["--listen", "127.0.0.1:0"]);
        Server::of(command, data)
    }

    /// Starts a server again in its data directory, at its address.
    pub(crate) fn again(&self, server: &mut Server) {
        let address = server.url.trim_start_matches("http://").to_owned();
        let mut command = self.serve(server.data.path(), &["--listen", &address]);
        server.restart(&mut command);
    }

    /// Runs SQL from outside; gives what PostgreSQL's own client says.
    pub(crate) fn execute(&self, sql: &str) -> String {
        self.postgres.execute(self.database.rsplit('/').next().unwrap(), sql)
    }

    /// Kills a server and says to another one that it will not come back.
    pub(crate) fn lose(&self, server: &mut Server, told: &Server) {
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        let lost = id_of(server);
        // As if it had been silent for a while already.
        self.execute(&format!("UPDATE nodes SET beat_at = beat_at - 60000000 WHERE id = '{lost}'"));
        until("its silence", || told.run(&["node", "lost", &lost]).code == Some(0));
    }
}

/// What opens the routes between nodes, as every node with this key tells it: a node of another version too.
pub(crate) fn token_between_nodes() -> String {
    let key = SecretKey::parse(&SecretString::from(KEY), "a test").unwrap();
    key.derive("token between nodes").expose_secret().to_owned()
}

/// The state of a sandbox, as this server sees it.
pub(crate) fn state(server: &Server, id: &str) -> Value {
    server.json(&["show", id])["sandbox"]["state"].clone()
}

pub(crate) fn script(dir: &Path, text: &str) -> String {
    let path = dir.join("script.yaml");
    std::fs::write(&path, text).unwrap();
    format!("script:{}", path.display())
}

/// Begins a run and gives its sandbox.
pub(crate) fn run(server: &Server, repo: &Path, model: &str) -> String {
    let mut command = sunaba(server.data.path());
    command
        .args(["run", "--detach", "--egress", "none", "--repo"])
        .arg(repo)
        .args(["--model", model, "Do it"]);
    Ran::of(&mut command).expect_code(0).stdout.trim().to_owned()
}

/// Begins a run of a project by its id and gives its sandbox; what the model says is stored where it is asked for.
pub(crate) async fn run_project(server: &Server, project: &str, text: String) -> String {
    let request = http().post(format!("{}/api/v1/blobs", server.url)).bearer_auth(server.token()).body(text);
    let blob: Value = request.send().await.unwrap().json().await.unwrap();
    let model = format!("script:{}", blob["hash"].as_str().unwrap());
    let body = json!({ "project_id": project, "prompt": "Do it", "model": model });
    server.post("/api/v1/sandboxes", &body).await["id"].as_str().unwrap().to_owned()
}

/// A new token of a sandbox, bound to the attempt that it is at.
pub(crate) async fn token_of(server: &Server, sandbox: &str) -> String {
    let body = json!({ "name": "a test's", "kind": "sandbox", "sandbox_id": sandbox });
    server.post("/api/v1/tokens", &body).await["token"].as_str().unwrap().to_owned()
}

pub(crate) fn nodes(server: &Server) -> Vec<Value> {
    server.json(&["status"])["nodes"].as_array().unwrap().clone()
}

pub(crate) fn status_of(server: &Server, node: &str) -> Value {
    nodes(server).into_iter().find(|it| it["id"] == node).unwrap()["status"].clone()
}

pub(crate) fn id_of(server: &Server) -> String {
    std::fs::read_to_string(server.data.path().join("node-id")).unwrap().trim().to_owned()
}

/// A repository that the first of two servers has, and a sandbox that the second holds.
pub(crate) struct Across {
    pub(crate) installation: Installation,
    /// Has the repository and answers; starts no sandbox.
    pub(crate) home: Server,
    /// Starts sandboxes.
    pub(crate) holder: Server,
    pub(crate) repo: PathBuf,
}

impl Across {
    pub(crate) fn start() -> Self {
        let installation = Installation::start();
        let home = installation.node(&["--roles", "api"]);
        let holder = installation.node(&[]);
        let repo = repository(home.data.path());
        Self { installation, home, holder, repo }
    }
}
