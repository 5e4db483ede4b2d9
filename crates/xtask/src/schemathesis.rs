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
/// Streams never end by themselves, so a request to one cannot be judged this way.
const STREAMS: &str = "/(events/stream|ws/events)$";

/// Starts a server of its own and runs schemathesis against it.
pub(crate) fn run() -> anyhow::Result<()> {
    let server = Server::start()?;
    let token = std::fs::read_to_string(server.data.join("admin-token")).context("the admin token")?;
    let mut tool = Command::new(TOOL);
    tool.arg("run")
        .arg(format!("{}/api/openapi.json", server.url))
        .arg("--header")
        .arg(format!("Authorization: Bearer {}", token.trim()))
        .args(["--checks", CHECKS, "--exclude-path-regex", STREAMS])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", &examples()])
        .args(["--request-timeout", "20", "--suppress-health-check", "all", "--no-color"])
        .env("PYTHONWARNINGS", "ignore");
    stage::require("schemathesis run", &mut tool)
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

/// Picks `"url":"…"` out of the file, so that this crate needs no JSON parser.
fn read_url(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let after = text.split("\"url\"").nth(1)?;
    let start = after.find('"')? + 1;
    let end = start + after[start..].find('"')?;
    Some(after[start..end].to_owned())
}
