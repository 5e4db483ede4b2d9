//! Real sandboxes that work while the servers die under them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::door::{Ask, Door};
use super::inbox::Sent;
use super::{checker, places};
use crate::run::repository;
use crate::sandboxes::left;

/// How long the end of everything may take.
const SETTLING: Duration = Duration::from_secs(120);
const LIVING: &str = "pending,creating,running,completing";

/// Sandboxes of one project whose repository is on the first server's machine.
#[derive(Clone)]
pub(super) struct Runs {
    door: Door,
    body: Value,
    project: String,
}

/// What was asked for and got its answer.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) sandboxes: Vec<String>,
    pub(super) messages: Vec<Sent>,
    /// To whom something was said, answer or not.
    pub(super) said: Vec<String>,
}

impl Runs {
    /// Makes the project and stores what the model will say.
    pub(super) async fn prepare(
        door: &Door,
        script: &'static str,
    ) -> anyhow::Result<(Self, tempfile::TempDir)> {
        let repo = repository()?;
        let api = door.api(0);
        let blob = api.post_bytes("/api/v1/blobs", script).await?;
        let hash = blob["hash"].as_str().context("hash")?;
        let project = api.post("/api/v1/projects", &json!({ "repo_path": repo.path() })).await?;
        let project = project["id"].as_str().context("id")?.to_owned();
        let body = json!({
            "project_id": project, "prompt": "Count, then write", "model": format!("script:{hash}"),
            "resources": { "memory_gb": 0.5, "cpu": 1, "disk_gb": 0.2 },
        });
        Ok((Self { door: door.clone(), body, project }, repo))
    }

    /// Asks for one sandbox on either server, without repeating: a request without an answer may have been heard.
    pub(super) async fn begin(&self, random: &mut StdRng) -> anyhow::Result<Option<String>> {
        let ask = Ask::post("/api/v1/sandboxes", &self.body);
        match self.door.ask(random.random_range(0..2), ask).await {
            Some((201, row)) => Ok(Some(row["id"].as_str().context("id")?.to_owned())),
            Some((503, _)) | None => Ok(None),
            Some((status, body)) => bail!("a sandbox was refused: {status} {body}"),
        }
    }

    /// Keeps this many alive until told to stop, says something to each, and looks whether each is alone.
    pub(super) async fn keep_up(
        self,
        at_once: usize,
        nodes: Vec<PathBuf>,
        seed: u64,
        stop: CancellationToken,
    ) -> anyhow::Result<Asked> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut asked = Asked::default();
        while !stop.is_cancelled() {
            // Said when it happens, while the servers' logs still end with it.
            if let Some(row) = self.rows("failed,cancelled", &mut random).await?.first() {
                bail!("it was healthy and is {}: {row}", row["state"]);
            }
            let living = self.rows(LIVING, &mut random).await?;
            let nodes: Vec<&Path> = nodes.iter().map(PathBuf::as_path).collect();
            checker::one_at_a_time(&living, &places::look(&nodes)?)?;
            if living.len() < at_once
                && let Some(id) = self.begin(&mut random).await?
            {
                asked.messages.extend(self.say(&id, &mut random).await?);
                asked.said.push(id.clone());
                asked.sandboxes.push(id);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(asked)
    }

    /// Says something to a sandbox, once; who takes it, if it got its answer.
    async fn say(&self, sandbox: &str, random: &mut StdRng) -> anyhow::Result<Option<Sent>> {
        let body = json!({ "content": "go on" });
        let path = format!("/api/v1/sandboxes/{sandbox}/messages");
        match self.door.ask(random.random_range(0..2), Ask::post(&path, &body)).await {
            Some((200, told)) => {
                let word = |name: &str| told[name].as_str().map(str::to_owned).context("no id");
                Ok(Some(Sent { sandbox: word("sandbox_id")?, id: word("message_id")? }))
            }
            Some((503, _)) | None => Ok(None),
            Some((status, body)) => bail!("{path}: {status} {body}"),
        }
    }

    /// The project's sandboxes in these states (all if none is named), as either server tells it.
    pub(super) async fn rows(&self, states: &str, random: &mut StdRng) -> anyhow::Result<Vec<Value>> {
        let mut rows: Vec<Value> = Vec::new();
        let wanted = if states.is_empty() { String::new() } else { format!("&state={states}") };
        let mut before = String::new();
        loop {
            let path = format!("/api/v1/sandboxes?limit=500&project_id={}{wanted}{before}", self.project);
            let (page, _) = self.door.insist(Ask::get(&path), random).await?;
            rows.extend(page["sandboxes"].as_array().context("sandboxes")?.iter().cloned());
            let Some(cursor) = page["next_cursor"].as_str() else { return Ok(rows) };
            before = format!("&before={cursor}");
        }
    }

    /// Waits until every row is over and nothing of any sandbox is left on the machine; gives the rows.
    pub(super) async fn settle(&self, nodes: &[&Path], random: &mut StdRng) -> anyhow::Result<Vec<Value>> {
        let began = Instant::now();
        loop {
            let living = self.rows(LIVING, random).await?;
            let rows = self.rows("", random).await?;
            let ids: Vec<String> =
                rows.iter().filter_map(|row| row["id"].as_str().map(str::to_owned)).collect();
            let mut left: Vec<String> =
                living.iter().map(|row| format!("row {} is {}", row["id"], row["state"])).collect();
            left.extend(checker::places(&places::look(nodes)?, &living).err().map(|why| why.to_string()));
            for data in nodes {
                left.extend(left::on_this_machine(data, &ids));
            }
            if left.is_empty() {
                return Ok(rows);
            }
            if began.elapsed() > SETTLING {
                bail!("after {SETTLING:?} there is left: {left:#?}{}", last_words(nodes));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Runs one more, after everything has settled, and looks while it works: it is where its row says and nowhere
    /// else. Gives the ids of those that were begun: one may be over before it was looked at.
    pub(super) async fn once_more(
        &self,
        nodes: &[&Path],
        random: &mut StdRng,
    ) -> anyhow::Result<Vec<String>> {
        let began = Instant::now();
        let mut begun: Vec<String> = Vec::new();
        while began.elapsed() < SETTLING {
            if self.rows(LIVING, random).await?.is_empty() {
                // Nothing of the one before may lie around beside it.
                self.settle(nodes, random).await?;
                begun.push(self.begin(random).await?.context("a server that is well answers")?);
            }
            let before = self.rows("running", random).await?;
            let seen = places::look(nodes)?;
            let after = self.rows("running", random).await?;
            if let ([one], [same]) = (&before[..], &after[..])
                && one["id"] == same["id"]
            {
                checker::places(&seen, &after)?;
                return Ok(begun);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bail!("no sandbox came up within {SETTLING:?} of the storm{}", last_words(nodes))
    }
}

/// The ends of the servers' logs; the whole of them goes where `SUNABA_CLUSTER_LOGS` says.
pub(super) fn last_words(nodes: &[&Path]) -> String {
    let mut words = String::new();
    let keep = std::env::var_os("SUNABA_CLUSTER_LOGS").map(std::path::PathBuf::from);
    for (index, data) in nodes.iter().enumerate() {
        let file = data.join("serve-test.log");
        if let Some(folder) = &keep {
            drop(std::fs::copy(&file, folder.join(format!("server-{index}.log"))));
        }
        let log = std::fs::read_to_string(file).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        words += &format!("\n--- {}\n{}", data.display(), lines[lines.len().saturating_sub(30)..].join("\n"));
    }
    words
}
