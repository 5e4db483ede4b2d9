//! Promise 6: a sandbox that hangs is noticed and its work goes on in another one; and only one that hangs: not its
//! neighbour, not one that comes back, and not one whose server was away.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::api::Api;
use crate::run::repository;
use crate::sandboxes::left::processes_of;
use crate::sandboxes::victims::{descends_from, processes, shims, words};
use crate::server::Server;

/// A heartbeat every second makes the shortest window there is: 10 s, and 25 s to the end.
const ENVIRONMENT: (&str, &str) = ("HEARTBEAT_INTERVAL", "1");
/// The ladder's 25 s, less the time since the last sign before the stop: one beat, and half of one that was late.
const NOT_ENDED_BEFORE: Duration = Duration::from_millis(23_500);
/// What each rung says of the silence at least, in seconds.
const SILENT_SECONDS: [i64; 3] = [10, 15, 20];
/// Longer than a sandbox may be silent before it is ended.
const AWAY: Duration = Duration::from_secs(27);
/// The whole ladder and the end, on a busy machine.
const NOTICED_WITHIN: Duration = Duration::from_secs(150);

const LADDER: [&str; 3] = ["sandbox.warned", "sandbox.unresponsive", "sandbox.interrupted"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_hangs_is_ended_and_tried_again_and_nobody_else_is() -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let repo = repository()?;
    let server = start(data.path()).await?;
    let runs = Runs::prepare(&server, repo.path()).await?;
    let (hangs, returns, works) = (runs.begin(600).await?, runs.begin(40).await?, runs.begin(40).await?);
    for id in [&hangs, &returns, &works] {
        runs.wait_for(id, "agent.tool_use").await?;
    }
    let began = Instant::now();
    ensure!(signal_all(data.path(), &hangs, Signal::SIGSTOP)? > 2, "there is something to stop");
    signal_all(data.path(), &returns, Signal::SIGSTOP)?;
    runs.wait_for(&returns, LADDER[0]).await?;
    signal_all(data.path(), &returns, Signal::SIGCONT)?;
    runs.wait_for(&returns, "sandbox.heard_again").await?;

    let row = runs.end_of(&hangs).await?;
    let took = began.elapsed();
    println!("silence: noticed and ended after {took:.0?}: {}", row["reason"]);
    ensure!(row["state"] == "failed", "{row}");
    let reason = row["reason"].as_str().unwrap_or_default();
    ensure!(reason.starts_with("nothing was heard from the sandbox for "), "{row}");
    ensure!(took >= NOT_ENDED_BEFORE, "it was ended too early, after {took:?}");
    ensure!(runs.told_of(&hangs).await? == LADDER, "{:?}", runs.told_of(&hangs).await?);
    let silent = runs.silent_seconds(&hangs).await?;
    ensure!(silent.iter().zip(SILENT_SECONDS).all(|(told, least)| *told >= least), "{silent:?}");
    runs.wait_for_next(&hangs).await?;
    let left = processes_of(std::slice::from_ref(&hangs));
    ensure!(left.is_empty(), "{left:#?}");

    for id in [&returns, &works] {
        let row = runs.end_of(id).await?;
        ensure!((&row["state"], &row["attempt"]) == (&json!("completed"), &json!(1)), "{row}");
    }
    ensure!(runs.told_of(&returns).await? == [LADDER[0], "sandbox.heard_again"]);
    ensure!(runs.told_of(&works).await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_away_takes_nobody_for_silent() -> anyhow::Result<()> {
    let data = tempfile::tempdir()?;
    let repo = repository()?;
    let mut server = start(data.path()).await?;
    let runs = Runs::prepare(&server, repo.path()).await?;
    let id = runs.begin(45).await?;
    runs.wait_for(&id, "agent.tool_use").await?;
    server.signal(Signal::SIGSTOP)?;
    tokio::time::sleep(AWAY).await;
    server.signal(Signal::SIGCONT)?;
    // It looks again, and finds what it slept through.
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.kill().await?;
    tokio::time::sleep(AWAY).await;
    server.restart().await?;
    let row = runs.end_of(&id).await?;
    ensure!((&row["state"], &row["attempt"]) == (&json!("completed"), &json!(1)), "{row}");
    ensure!(runs.told_of(&id).await?.is_empty(), "{:?}", runs.told_of(&id).await?);
    Ok(())
}

async fn start(data: &Path) -> anyhow::Result<Server> {
    Server::start_with(data, &[(ENVIRONMENT.0, ENVIRONMENT.1.to_owned())]).await
}

/// Signals everything in a sandbox, twice: something may just have been started. How many there were.
fn signal_all(data: &Path, id: &str, signal: Signal) -> anyhow::Result<usize> {
    let holds = |pid: &i32| words(*pid).iter().any(|word| word.contains(id));
    let holders: BTreeSet<i32> = shims(data).into_iter().filter(holds).collect();
    ensure!(!holders.is_empty(), "{id} has no shim");
    let mut count = 0;
    for _ in 0..2 {
        let inside: Vec<i32> = processes().filter(|pid| descends_from(*pid, &holders)).collect();
        count = inside.len();
        for pid in inside {
            // One that has ended meanwhile needs none.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
    Ok(count)
}

/// Runs whose agent only waits for a command.
struct Runs {
    api: Api,
    project: Value,
}

impl Runs {
    async fn prepare(server: &Server, repo: &Path) -> anyhow::Result<Self> {
        let api = Api::new(server.url(), server.token()?);
        let project = api.post("/api/v1/projects", &json!({ "repo_path": repo })).await?["id"].clone();
        Ok(Self { api, project })
    }

    async fn begin(&self, seconds: u64) -> anyhow::Result<String> {
        let script = format!("- tools:\n    - shell: sleep {seconds}\n- text: Done.\n");
        let blob = self.api.post_bytes("/api/v1/blobs", script).await?;
        let model = format!("script:{}", blob["hash"].as_str().context("hash")?);
        let body = json!({
            "project_id": self.project, "prompt": "Wait", "model": model,
            "resources": { "memory_gb": 0.5, "cpu": 1, "disk_gb": 0.2 },
        });
        let sandbox = self.api.post("/api/v1/sandboxes", &body).await?;
        Ok(sandbox["id"].as_str().context("id")?.to_owned())
    }

    async fn wait_for(&self, id: &str, event_type: &str) -> anyhow::Result<()> {
        let path = format!("/api/v1/sandboxes/{id}/events?limit=1&event_type={event_type}");
        let began = Instant::now();
        while began.elapsed() < NOTICED_WITHIN {
            if self.api.get(&path).await?["total_count"].as_i64().unwrap_or(0) > 0 {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("no {event_type} of {id} within {NOTICED_WITHIN:?}: {:?}", self.told_of(id).await?)
    }

    /// Its row, once it is over.
    async fn end_of(&self, id: &str) -> anyhow::Result<Value> {
        let began = Instant::now();
        loop {
            let row = self.api.get(&format!("/api/v1/sandboxes/{id}")).await?;
            if matches!(row["state"].as_str(), Some("completed" | "failed" | "cancelled")) {
                return Ok(row);
            }
            ensure!(began.elapsed() < NOTICED_WITHIN, "it is not over: {row}, {:?}", self.told_of(id).await?);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until the next attempt at its task works, and nothing of it is left.
    async fn wait_for_next(&self, id: &str) -> anyhow::Result<()> {
        let task = self.api.get(&format!("/api/v1/sandboxes/{id}")).await?["task_id"].clone();
        let project = self.project.as_str().context("id")?;
        let path = format!("/api/v1/sandboxes?limit=100&project_id={project}");
        let began = Instant::now();
        while began.elapsed() < NOTICED_WITHIN {
            let rows = self.api.get(&path).await?;
            let rows = rows["sandboxes"].as_array().context("sandboxes")?;
            let is_next = |row: &Value| row["task_id"] == task && row["attempt"] == 2;
            if rows.iter().any(|row| is_next(row) && row["state"] == "running")
                && processes_of(&[id.to_owned()]).is_empty()
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("there is no second attempt within {NOTICED_WITHIN:?}, or the first is still there")
    }

    /// How long it was silent at each rung, as its log says.
    async fn silent_seconds(&self, id: &str) -> anyhow::Result<Vec<i64>> {
        let log = self.api.whole_log(id).await?;
        let rungs = log.iter().filter(|event| LADDER.iter().any(|rung| event["event_type"] == *rung));
        rungs.map(|event| event["event_data"]["silent_seconds"].as_i64().context("silent_seconds")).collect()
    }

    /// What its log says of its silence, oldest first.
    async fn told_of(&self, id: &str) -> anyhow::Result<Vec<String>> {
        let log = self.api.whole_log(id).await?;
        let types = log.iter().filter_map(|event| event["event_type"].as_str());
        let is_told = |name: &&str| LADDER.contains(name) || *name == "sandbox.heard_again";
        Ok(types.filter(is_told).map(str::to_owned).collect())
    }
}
