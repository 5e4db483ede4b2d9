//! A server with a project on which one agent works.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::Agent;
use crate::api::Api;
use crate::run::{Run, git};
use crate::server::Server;

/// What every agent is asked to do.
pub(crate) const PROMPT: &str = "Do what the script says";

/// Scripted tokens cost something here, so that cost is seen and so is a call that is open.
const PRICES: &str = "models: {script: {input: 3, output: 15}}\n";

/// The server, the project, and who works on it.
pub(crate) struct World {
    pub(crate) agent: Agent,
    pub(crate) api: Api,
    /// Behind a lock, so that it can be killed while runs are looked at.
    pub(crate) server: tokio::sync::Mutex<Server>,
    pub(crate) data: TempDir,
    pub(crate) repo: TempDir,
    _toolchain: TempDir,
    project: String,
}

impl World {
    /// Starts a server and gives it a project whose sandboxes have the agent's program.
    pub(crate) async fn start(agent: Agent) -> anyhow::Result<Self> {
        let (data, toolchain) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let toolchains = agent.lay(toolchain.path())?;
        let prices = data.path().join("prices.yaml");
        std::fs::write(&prices, PRICES)?;
        let settings = [("SUNABA_PRICES", prices.display().to_string())];
        let server = Server::start_with(data.path(), &settings).await?;
        let api = Api::new(server.url(), server.token()?);
        let repo = repository()?;
        let wanted = json!({ "repo_path": repo.path(), "settings": { "toolchains": toolchains } });
        let project = api.post("/api/v1/projects", &wanted).await?;
        let project = project["id"].as_str().context("id")?.to_owned();
        let server = tokio::sync::Mutex::new(server);
        Ok(Self { agent, api, server, data, repo, _toolchain: toolchain, project })
    }

    /// Lets the agent work on a script.
    pub(crate) async fn run(&self, script: &str) -> anyhow::Result<Run<'_>> {
        self.run_with(script, &json!({})).await
    }

    /// The same, with more settings of the call.
    pub(crate) async fn run_with(&self, script: &str, more: &Value) -> anyhow::Result<Run<'_>> {
        let blob = self.api.post_bytes("/api/v1/blobs", script.to_owned()).await?;
        let mut body = json!({
            "project_id": self.project,
            "prompt": PROMPT,
            "model": format!("script:{}", blob["hash"].as_str().context("hash")?),
            "runtime": self.agent.runtime(),
        });
        for (key, value) in more.as_object().context("settings are an object")? {
            body[key] = value.clone();
        }
        let sandbox = self.api.post("/api/v1/sandboxes", &body).await?;
        Ok(Run::new(self, sandbox["id"].as_str().context("id")?.to_owned()))
    }
}

fn repository() -> anyhow::Result<TempDir> {
    let directory = tempfile::tempdir()?;
    let repo: &Path = directory.path();
    git(repo, &["init", "--quiet", "-b", "main"])?;
    std::fs::write(repo.join("README.md"), "# worked on\n")?;
    git(repo, &["add", "."])?;
    let who = ["-c", "user.name=test", "-c", "user.email=test@sunaba.invalid"];
    git(repo, &[&who[..], &["commit", "--quiet", "-m", "start"]].concat())?;
    Ok(directory)
}
