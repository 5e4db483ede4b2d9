//! Throws generated requests at a real server, as its OpenAPI document invites.
//!
//! Every answer has to be one that the document names, and none may be a 5xx.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::stage;

const TOOL: &str = "target/tools/schemathesis-4/bin/schemathesis";
const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
/// It finds ids in answers: it revoked the token that it uses, and everything after that was a 401.
const REVOKING: &str = "revoke_token";
/// Streams never end by themselves, so a request to one cannot be judged this way.
const STREAMS: &str = "/(events/stream|ws/events)$";

/// Starts a server of its own and runs schemathesis against it.
pub(crate) fn run() -> anyhow::Result<()> {
    let server = Server::start()?;
    let judged = judge(&server);
    let ended = server.end_sandboxes();
    judged.and(ended)
}

fn judge(server: &Server) -> anyhow::Result<()> {
    let settings = server.data.join("schemathesis.toml");
    std::fs::write(&settings, real_ids(server)?)?;
    let token = std::fs::read_to_string(server.data.join("admin-token")).context("the admin token")?;
    let mut tool = Command::new(TOOL);
    tool.arg("--config-file")
        .arg(&settings)
        .arg("run")
        .arg(format!("{}/api/openapi.json", server.url))
        .arg("--header")
        .arg(format!("Authorization: Bearer {}", token.trim()))
        .args(["--checks", CHECKS, "--exclude-path-regex", STREAMS, "--exclude-operation-id", REVOKING])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", &examples()])
        .args(["--request-timeout", "20", "--suppress-health-check", "all", "--no-color"])
        .env("PYTHONWARNINGS", "ignore");
    stage::require("schemathesis run", &mut tool)
}

/// Runs a small task, so that half of the requests can name things that exist: random ids only ever meet a 404.
fn real_ids(server: &Server) -> anyhow::Result<String> {
    let repository = server.data.join("repository");
    std::fs::create_dir_all(&repository)?;
    for arguments in [
        &["init", "--quiet", "-b", "main"][..],
        &[
            "-c",
            "user.name=test",
            "-c",
            "user.email=test@sunaba.invalid",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "start",
        ],
    ] {
        stage::require("git", Command::new("git").arg("-C").arg(&repository).args(arguments))?;
    }
    let output = server
        .client()
        .args(["run", "--json", "--detach", "look around", "--repo"])
        .arg(&repository)
        .output()
        .context("cannot start a run")?;
    if !output.status.success() {
        bail!("the run did not start: {}", String::from_utf8_lossy(&output.stderr));
    }
    let started = String::from_utf8(output.stdout)?;
    let id = |name: &str| read_text(&started, name).with_context(|| format!("no {name} in {started}"));
    let sandbox = started
        .split("\"sandbox\"")
        .nth(1)
        .and_then(|rest| read_text(rest, "id"))
        .context("the sandbox's id")?;
    let mut settings = String::new();
    for (path, id) in [
        ("sandboxes", sandbox),
        ("projects", id("project_id")?),
        ("tickets", id("ticket_id")?),
        ("tasks", id("task_id")?),
    ] {
        settings.push_str(&format!(
            "[[operations]]\ninclude-path-regex = '^/api/v1/{path}/\\{{id\\}}'\nparameters = {{ id = \"{id}\" }}\n\n"
        ));
    }
    Ok(settings)
}

/// How many examples an operation gets; `SUNABA_EXAMPLES` asks for more.
fn examples() -> String {
    std::env::var("SUNABA_EXAMPLES").unwrap_or_else(|_| "15".to_owned())
}

/// A server in a directory of its own; stopped and removed when dropped.
struct Server {
    child: Child,
    data: PathBuf,
    url: String,
}

impl Server {
    fn start() -> anyhow::Result<Self> {
        let data = std::env::temp_dir().join(format!("sunaba-schemathesis-{}", std::process::id()));
        std::fs::create_dir_all(&data)?;
        let child = Command::new("target/ci/sunaba")
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(data.join("serve.log"))?)
            .spawn()
            .context("cannot start target/ci/sunaba")?;
        let mut server = Self { child, data, url: String::new() };
        server.url = server.wait_for_address()?;
        Ok(server)
    }

    /// The program as its client, and nobody else's.
    fn client(&self) -> Command {
        let mut client = Command::new("target/ci/sunaba");
        client.env_remove("SUNABA_URL").env_remove("SUNABA_TOKEN").arg("--data").arg(&self.data);
        client
    }

    /// Ends what runs and what the requests made; a sandbox outlives its server, and has a directory until it is gone.
    fn end_sandboxes(&self) -> anyhow::Result<()> {
        stage::require("sunaba stop --all", self.client().args(["stop", "--all"]))?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if !has_directories(&self.data.join("sandboxes")) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("sandboxes were still there 20 s after their end")
    }

    fn wait_for_address(&mut self) -> anyhow::Result<String> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let file = self.data.join("server.json");
        while Instant::now() < deadline {
            if let Some(url) = read_url(&file) {
                return Ok(url);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at once ({status}); its log is in {}", self.data.display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the server did not say its address within 20 s")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing more can be done here if either fails; the directory is a temporary one.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.data));
    }
}

fn has_directories(place: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(place) else { return false };
    entries.flatten().any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
}

fn read_url(file: &Path) -> Option<String> {
    read_text(&std::fs::read_to_string(file).ok()?, "url")
}

/// Picks the first `"name":"text"` out of our own JSON, so that this crate needs no parser.
fn read_text(json: &str, name: &str) -> Option<String> {
    let after = json.split(&format!("\"{name}\":\"")).nth(1)?;
    Some(after[..after.find('"')?].to_owned())
}
