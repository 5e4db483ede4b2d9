//! Promise 7 under kill -9: servers, shims, bridges and workers die at random moments of creation, run and
//! deletion, and in the end nothing of any sandbox is left and rows and providers agree.
//!
//! `SUNABA_SANDBOX_KILLS` says how many kills (12 unless told), `SUNABA_SEED` repeats a run. It ends after a
//! minute of killing, however many were done.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::api::Api;
use crate::run::repository;
use crate::server::Server;

/// How long the killing may take, and how long the end of everything.
const KILLING: Duration = Duration::from_secs(60);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_leave_nothing_behind() -> anyhow::Result<()> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("SUNABA_SEED").unwrap_or_else(|| rand::rng().random());
    let kills = number("SUNABA_SANDBOX_KILLS").unwrap_or(12);
    println!("sandbox kill test: SUNABA_SEED={seed} SUNABA_SANDBOX_KILLS={kills}");
    let mut random = StdRng::seed_from_u64(seed);

    let data = tempfile::tempdir()?;
    let repo = repository()?;
    std::fs::write(
        repo.path().join(".sunaba.yaml"),
        "setup: mkdir -p deps && sleep 0.3 && echo x > deps/x\n",
    )?;
    crate::run::commit(repo.path())?;
    let mut server = Server::start(data.path()).await?;
    let api = Api::new(server.url(), server.token()?);
    let body = wanted(&api, repo.path()).await?;

    let mut ids: Vec<String> = Vec::new();
    let mut done = 0;
    let began = Instant::now();
    while done < kills && began.elapsed() < KILLING {
        while living(&api, &ids).await?.len() < AT_ONCE {
            let sandbox = api.post("/api/v1/sandboxes", &body).await?;
            ids.push(sandbox["id"].as_str().context("id")?.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(20..700))).await;
        match random.random_range(0..8) {
            0..3 => {
                server.kill_and_restart().await?;
                done += 1;
            }
            3 => {
                if let Some(id) = living(&api, &ids).await?.first() {
                    // A person's stop is one more way into deletion.
                    stop(&api, id).await?;
                }
            }
            part => {
                let word = ["shim", "bridge", "work", "guest"][part - 4];
                done += u64::from(kill_one(data.path(), word, &mut random));
            }
        }
    }
    for id in living(&api, &ids).await? {
        stop(&api, &id).await?;
    }
    // Whatever the last kill left is found at the next start.
    server.kill_and_restart().await?;
    settled(&api, data.path(), &ids).await?;
    println!("sandbox kill test: {done} kills, {} sandboxes: nothing is left", ids.len());
    ensure!(done > 0, "nothing was killed");
    Ok(())
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

async fn living(api: &Api, ids: &[String]) -> anyhow::Result<Vec<String>> {
    let mut living = Vec::new();
    for id in ids.iter().rev().take(AT_ONCE * 4) {
        let row = api.get(&format!("/api/v1/sandboxes/{id}")).await?;
        if !has_ended(&row) {
            living.push(id.clone());
        }
    }
    Ok(living)
}

/// Kills one process of this test's own sandboxes, by its words on the command line; whether there was one.
fn kill_one(data: &Path, part: &str, random: &mut StdRng) -> bool {
    let shims: BTreeSet<i32> = processes().filter(|pid| is_shim_of(*pid, data)).collect();
    let matching: Vec<i32> = match part {
        "shim" => shims.iter().copied().collect(),
        word => processes().filter(|pid| has_word(*pid, word) && descends_from(*pid, &shims)).collect(),
    };
    if matching.is_empty() {
        return false;
    }
    let pid = matching[random.random_range(0..matching.len())];
    // Looked at again at the last moment: the number may be another's by now.
    let still = if part == "shim" { is_shim_of(pid, data) } else { descends_from(pid, &shims) };
    still && pid > 1 && kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn words(pid: i32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn has_word(pid: i32, word: &str) -> bool {
    let words = words(pid);
    words.first().is_some_and(|program| program.contains("sunaba-worker")) && words.iter().any(|w| w == word)
}

fn is_shim_of(pid: i32, data: &Path) -> bool {
    let words = words(pid);
    words.iter().any(|word| word == "shim") && words.iter().any(|word| Path::new(word).starts_with(data))
}

fn descends_from(pid: i32, ancestors: &BTreeSet<i32>) -> bool {
    let mut at = pid;
    for _ in 0..32 {
        let Ok(status) = std::fs::read_to_string(format!("/proc/{at}/status")) else { return false };
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        at = parent.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        if ancestors.contains(&at) {
            return true;
        }
        if at <= 1 {
            return false;
        }
    }
    false
}

/// Waits until every row is over and nothing of any sandbox is left anywhere.
async fn settled(api: &Api, data: &Path, ids: &[String]) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let left = leftovers(api, data, ids).await?;
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

async fn leftovers(api: &Api, data: &Path, ids: &[String]) -> anyhow::Result<Vec<String>> {
    let mut left = Vec::new();
    for id in ids {
        let row = api.get(&format!("/api/v1/sandboxes/{id}")).await?;
        if !has_ended(&row) {
            left.push(format!("row {id} is {}", row["state"]));
        }
    }
    let ours = |text: &str| ids.iter().any(|id| text.contains(id.as_str()));
    for name in names(&data.join("sandboxes")).into_iter().chain(names(&data.join("sandboxes/.disks"))) {
        if ours(&name) {
            left.push(format!("directory {name}"));
        }
    }
    for folder in names(&data.join("layers")) {
        let unfinished = names(&data.join("layers").join(folder));
        left.extend(
            unfinished.into_iter().filter(|name| name.starts_with('.')).map(|name| format!("layer {name}")),
        );
    }
    for pid in processes() {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if ours(&words(pid).join(" ")) || ours(&String::from_utf8_lossy(&environment)) {
            left.push(format!("process {pid}: {}", words(pid).join(" ")));
        }
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    left.extend(mounts.lines().filter(|line| ours(line)).map(|line| format!("mount {line}")));
    for device in names(Path::new("/sys/block")).into_iter().filter(|name| name.starts_with("loop")) {
        let file = format!("/sys/block/{device}/loop/backing_file");
        let backing = std::fs::read_to_string(file).unwrap_or_default();
        if ours(&backing) || Path::new(backing.trim()).starts_with(data) {
            left.push(format!("loop device {device}: {backing}"));
        }
    }
    let mut open = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if ours(&entry.file_name().to_string_lossy()) {
                    left.push(format!("cgroup {}", entry.path().display()));
                }
                open.push(entry.path());
            }
        }
    }
    Ok(left)
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
