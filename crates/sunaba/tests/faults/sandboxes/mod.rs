//! Promise 7 under kill -9: servers, shims, bridges, workers, guests, containers and their daemon die at random
//! moments of creation, run and deletion, and in the end nothing of any sandbox is left and rows and providers
//! agree.
//!
//! `SUNABA_SANDBOX_KILLS` says how many kills (12 unless told), `SUNABA_SANDBOX_SECONDS` after how long it ends
//! however many were done (60 unless told); `SUNABA_CONTAINER_KILLS` (6) and `SUNABA_CONTAINER_SECONDS` (12) say
//! the same for containers. `SUNABA_SEED` repeats a run.

pub(crate) mod left;
pub(crate) mod victims;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::api::Api;
use crate::dockerd::{Dockerd, IMAGE};
use crate::leavings;
use crate::run::repository;
use crate::server::Server;

/// How long the end of everything may take.
const SETTLING: Duration = Duration::from_secs(120);
/// How many sandboxes live at once.
const AT_ONCE: usize = 3;

/// A setup that takes a moment and a run that takes a few: there is something to kill in every phase.
const SCRIPT: &str = r#"
- text: "I count."
  tools:
    - shell: "for i in 1 2 3 4 5 6; do echo tick $i; sleep 0.2; done"
- tools:
    - write: { path: a.txt, content: "counted\n" }
- text: "Done."
"#;

/// What makes the sandboxes.
enum World {
    Local,
    Docker(Dockerd),
}

/// When the killing is over.
struct Budget {
    kills: u64,
    time: Duration,
}

impl Budget {
    fn read(what: &str, kills: u64, seconds: u64) -> Self {
        let kills = number(&format!("SUNABA_{what}_KILLS")).unwrap_or(kills);
        let seconds = number(&format!("SUNABA_{what}_SECONDS")).unwrap_or(seconds);
        Self { kills, time: Duration::from_secs(seconds) }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_leave_nothing_behind() -> anyhow::Result<()> {
    storm("local", World::Local, Budget::read("SANDBOX", 12, 60)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_containers_and_their_daemon_leave_nothing_behind() -> anyhow::Result<()> {
    match Dockerd::start() {
        Ok(daemon) => storm("docker", World::Docker(daemon), Budget::read("CONTAINER", 6, 12)).await,
        Err(why) => {
            left_out("random kills of containers and their daemon", &format!("{why:#}"));
            Ok(())
        }
    }
}

/// Kills at random until the budget is spent, then looks what is left.
#[expect(clippy::print_stdout, reason = "the seed repeats a run, and the counts say what it was worth")]
async fn storm(provider: &str, world: World, budget: Budget) -> anyhow::Result<()> {
    let seed = number("SUNABA_SEED").unwrap_or_else(|| rand::rng().random());
    println!("{provider} kill test: SUNABA_SEED={seed}, at most {} kills in {:?}", budget.kills, budget.time);
    let data = tempfile::tempdir()?;
    let repo = repository()?;
    let setup = "setup: mkdir -p deps && sleep 0.3 && echo x > deps/x\n";
    std::fs::write(repo.path().join(".sunaba.yaml"), setup)?;
    crate::run::commit(repo.path())?;
    let server = Server::start_with(data.path(), &world.environment()).await?;
    let api = Api::new(server.url(), server.token()?);
    let body = wanted(&api, repo.path()).await?;
    let random = StdRng::seed_from_u64(seed);
    let mut storm = Storm { api, server, world, random, ids: Vec::new(), kills: BTreeMap::new() };

    let began = Instant::now();
    while storm.count() < budget.kills && began.elapsed() < budget.time {
        storm.fill_up(&body).await?;
        let pause = Duration::from_millis(storm.random.random_range(20..700));
        tokio::time::sleep(pause).await;
        storm.strike(data.path()).await?;
    }
    let took = began.elapsed();
    for id in storm.living().await? {
        stop(&storm.api, &id).await?;
    }
    // Whatever the last kill left is found at the next start.
    storm.server.kill_and_restart().await?;
    storm.settle(data.path()).await?;
    println!(
        "{provider} kill test: {} kills in {took:.0?} {:?}, {} sandboxes: nothing is left",
        storm.count(),
        storm.kills,
        storm.ids.len()
    );
    ensure!(storm.count() > 0, "nothing was killed");
    storm.server.stop().await?;
    let left = leavings::left(data.path());
    ensure!(left.is_empty(), "after an orderly end there is left: {left:#?}");
    Ok(())
}

impl World {
    /// What the server is told about it.
    fn environment(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Local => Vec::new(),
            Self::Docker(daemon) => vec![
                ("DOCKER_HOST", daemon.host()),
                ("SANDBOX_IMAGE", IMAGE.to_owned()),
                ("SANDBOX_PROVIDER", "docker".to_owned()),
                ("SANDBOX_ISOLATION", "any".to_owned()),
            ],
        }
    }

    /// Kills something of the world itself: what it was called, if there was one.
    fn strike(&mut self, data: &Path, random: &mut StdRng) -> anyhow::Result<Option<&'static str>> {
        let part = random.random_range(0..4);
        let (name, killed) = match self {
            Self::Local => {
                let name = ["shim", "bridge", "work", "guest"][part];
                let killed = match name {
                    "shim" => victims::kill_shim(data, random),
                    role => victims::kill_inside(data, role, random),
                };
                (name, killed)
            }
            Self::Docker(daemon) => strike_containers(daemon, part, random)?,
        };
        Ok(killed.then_some(name))
    }
}

fn strike_containers(
    daemon: &mut Dockerd,
    part: usize,
    random: &mut StdRng,
) -> anyhow::Result<(&'static str, bool)> {
    if part == 0 {
        daemon.kill_and_restart()?;
        return Ok(("daemon", true));
    }
    let containers = daemon.containers()?;
    if containers.is_empty() {
        return Ok(("container", false));
    }
    let one = &containers[random.random_range(0..containers.len())];
    Ok(match (part, daemon.init_of(one)) {
        (1, _) => ("container", daemon.kill_container(one)),
        (_, None) => ("container init", false),
        (2, Some(init)) => {
            let is_worker = |pid| victims::words(pid).iter().any(|word| word == "guest");
            ("container init", victims::kill_one(&[init], random, is_worker))
        }
        (_, Some(init)) => {
            let role = ["bridge", "work"][random.random_range(0..2)];
            let name = if role == "work" { "worker in a container" } else { "bridge in a container" };
            (name, victims::kill_below(&BTreeSet::from([init]), role, random))
        }
    })
}

/// A server under attack and what was asked of it.
struct Storm {
    api: Api,
    server: Server,
    world: World,
    random: StdRng,
    ids: Vec<String>,
    kills: BTreeMap<&'static str, u64>,
}

impl Storm {
    fn count(&self) -> u64 {
        self.kills.values().sum()
    }

    async fn fill_up(&mut self, body: &serde_json::Value) -> anyhow::Result<()> {
        while self.living().await?.len() < AT_ONCE {
            let sandbox = self.api.post("/api/v1/sandboxes", body).await?;
            self.ids.push(sandbox["id"].as_str().context("id")?.to_owned());
        }
        Ok(())
    }

    async fn strike(&mut self, data: &Path) -> anyhow::Result<()> {
        let struck = match self.random.random_range(0..8) {
            0..3 => {
                self.server.kill_and_restart().await?;
                Some("server")
            }
            3 => {
                if let Some(id) = self.living().await?.first() {
                    // A person's stop is one more way into deletion.
                    stop(&self.api, id).await?;
                }
                None
            }
            _ => self.world.strike(data, &mut self.random)?,
        };
        if let Some(name) = struck {
            *self.kills.entry(name).or_default() += 1;
        }
        Ok(())
    }

    async fn living(&self) -> anyhow::Result<Vec<String>> {
        let mut living = Vec::new();
        for id in self.ids.iter().rev().take(AT_ONCE * 4) {
            let row = self.api.get(&format!("/api/v1/sandboxes/{id}")).await?;
            if !has_ended(&row) {
                living.push(id.clone());
            }
        }
        Ok(living)
    }

    /// Waits until every row is over and nothing of any sandbox is left anywhere.
    async fn settle(&self, data: &Path) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let left = left::leftovers(&self.api, data, &self.ids, &self.world).await?;
            if left.is_empty() {
                return Ok(());
            }
            if began.elapsed() > SETTLING {
                let log = std::fs::read_to_string(data.join("serve-test.log")).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let tail = lines[lines.len().saturating_sub(40)..].join("\n");
                bail!("after {} s there is left: {left:#?}\n{tail}", SETTLING.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Ends a sandbox, unless it ended by itself in the meantime.
async fn stop(api: &Api, id: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/sandboxes/{id}");
    if let Err(error) = api.delete(&path).await {
        let row = api.get(&path).await?;
        ensure!(has_ended(&row), "{error:#}");
    }
    Ok(())
}

fn has_ended(row: &serde_json::Value) -> bool {
    matches!(row["state"].as_str(), Some("completed" | "failed" | "cancelled"))
}

async fn wanted(api: &Api, repo: &Path) -> anyhow::Result<serde_json::Value> {
    let blob = api.post_bytes("/api/v1/blobs", SCRIPT).await?;
    let hash = blob["hash"].as_str().context("hash")?;
    let project = api.post("/api/v1/projects", &json!({ "repo_path": repo })).await?;
    Ok(json!({
        "project_id": project["id"], "prompt": "Count, then write", "model": format!("script:{hash}"),
        "resources": { "memory_gb": 0.5, "cpu": 1, "disk_gb": 0.2 },
    }))
}

/// Says what is not tried here; the summary of the whole run repeats it.
#[expect(clippy::print_stderr, reason = "what is left out is said")]
fn left_out(what: &str, why: &str) {
    use std::io::Write as _;
    eprintln!("left out: {what}: {why}");
    if let Some(notes) = std::env::var_os("SUNABA_LEFT_OUT") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(notes);
        drop(file.and_then(|mut file| file.write_all(format!("{what}: {why}\n").as_bytes())));
    }
}
