//! One world from its start to its report.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::attempt::{Attempt, Without};
use crate::decoys::{Facts, is_root};
use crate::outcome::{Report, Results, judge, parse};
use crate::sandboxes::exports;
use crate::world::{Daemon, Kind, World};
use crate::{attempts, bare, judged};

/// What the attacking sandbox and the attacked one know of each other.
struct Stage {
    project: String,
    victim: String,
    facts: Facts,
}

/// Makes every attempt twice and reports.
pub(crate) async fn run(kind: Kind, daemon: Option<&Daemon>) {
    let mut world = World::start(kind, daemon);
    let mut report = Report::default();
    let (stage, in_victim) = prepare(&world, daemon).await;
    let mut without = outside(&world, &stage).await;
    without.insert(Without::Victim, in_victim);
    world.decoys.sweep();
    let attacker = attack(&world, &stage).await;
    let inside = parse(&world.until(&attacker, "FINISHED attack").await);
    for (category, attempt) in attempts::attacks() {
        if kind == Kind::Docker && attempt.name == "type-into-a-terminal" {
            // A profile of Docker cannot refuse some values of an argument.
            report.leave_out(category, attempt, "containers have no terminal of anyone else's");
            continue;
        }
        take(&mut report, category, attempt, without.get(&attempt.without), &inside, &world);
    }
    judged::sprung(&world, &attacker, &mut report).await;
    judged::greedy(&world, &mut report).await;
    limits(&world, &stage, &mut report).await;
    judged::flood(&mut world, &stage.project, &stage.victim, &mut report).await;
    let tracks = world.decoys.tracks();
    if !tracks.is_empty() {
        report.fault(format!("the attempts inside left tracks on the host: {tracks:?}"));
    }
    superseded(&mut world, &stage, &mut report).await;
    let left = world.close().await;
    if !left.is_empty() {
        report.fault(format!("processes are left: {left:#?}"));
    }
    if !world.is_alive() {
        report.fault("the server did not live through it".to_owned());
    }
    report.finish(kind.word());
}

fn take(
    report: &mut Report,
    category: &'static str,
    attempt: &Attempt,
    without: Option<&Results>,
    inside: &Results,
    world: &World,
) {
    let canary = &world.decoys.canary;
    let said = |results: Option<&Results>| {
        results.and_then(|results| results.get(attempt.name)).cloned().unwrap_or_default()
    };
    report.take(
        category,
        attempt,
        (judge(without, attempt.name, canary), &said(without)),
        (judge(Some(inside), attempt.name, canary), &said(Some(inside))),
    );
}

/// Starts the sandbox that is attacked and gathers what an attacker could at best know.
async fn prepare(world: &World, daemon: Option<&Daemon>) -> (Stage, Results) {
    let tools = world.decoys.path("tools");
    let toolchains = if is_root() { json!([tools]) } else { json!([]) };
    let settings = json!({ "toolchains": toolchains, "egress": { "preset": "open" } });
    let project = world.project("repository", &settings).await;
    let other = world.project("other-repository", &json!({})).await;
    let secret = format!("/api/v1/projects/{project}/secrets/UPSTREAM_TOKEN");
    world.ask(reqwest::Method::PUT, &secret, Some(&json!({ "value": world.keys.project_secret }))).await;
    let mut facts = world.decoys.facts.clone();
    let lib = "/workspace/escape";
    let canary = &world.decoys.canary;
    let own = "export TOKEN=$SANDBOX_TOKEN BASE=$CALLBACK_URL VICTIM_ID=$SANDBOX_ID; ";
    let first =
        format!("{own}bash {lib}/victim_sandbox.sh {canary}; bash {lib}/driver.sh {lib} without victim");
    let victim = world.sandbox(&project, &[first, "sleep 450".to_owned()], &Value::Null).await;
    let results = parse(&world.until(&victim, "FINISHED victim").await);
    let row = world.get(&format!("/api/v1/sandboxes/{victim}")).await;
    let blob = format!("/api/v1/sandboxes/{victim}/blobs");
    let blob = world.post(&blob, &json!("kept")).await["hash"].as_str().unwrap().to_owned();
    for id in ["ext-doomed", "ext-own"] {
        world
            .post(&format!("/api/v1/sandboxes/{id}/events"), &json!({ "event_type": "agent.started" }))
            .await;
    }
    let minted = json!({ "name": "stolen", "kind": "sandbox", "sandbox_id": victim });
    let stolen = world.post("/api/v1/tokens", &minted).await["token"].as_str().unwrap().to_owned();
    let minted = json!({ "name": "stolen admin", "kind": "admin" });
    let stolen_admin = world.post("/api/v1/tokens", &minted).await["token"].as_str().unwrap().to_owned();
    let port = world.url.rsplit(':').next().unwrap().to_owned();
    for (name, value) in [
        ("DATA", world.decoys.path("data").display().to_string()),
        ("SERVER_PORT", port),
        ("SERVER_PID", world.server_pid().to_string()),
        ("VICTIM_ID", victim.clone()),
        ("VICTIM_DIR", place_of(world, &victim)),
        ("DAEMON_SOCKET", daemon.map_or("", |daemon| daemon.host.trim_start_matches("unix://")).to_owned()),
        ("VICTIM_BRANCH", row["branch_name"].as_str().unwrap().to_owned()),
        ("VICTIM_BLOB", blob),
        ("DOOMED_ID", "ext-doomed".to_owned()),
        ("STOLEN_TOKEN", stolen),
        ("STOLEN_ADMIN_TOKEN", stolen_admin),
        ("OTHER_PROJECT", other),
        ("NEEDLES", needles(world)),
    ] {
        facts.insert(name.to_owned(), value);
    }
    (Stage { project, victim, facts }, results)
}

/// The directory of a sandbox on the host.
fn place_of(world: &World, sandbox: &str) -> String {
    let data = world.decoys.path("data");
    let inside = std::fs::read_dir(&data).unwrap().flatten().map(|entry| entry.path());
    let found = inside.map(|dir| dir.join(sandbox)).find(|dir| dir.is_dir());
    found.unwrap_or_else(|| data.join("sandboxes").join(sandbox)).display().to_string()
}

/// The root directory of a sandbox as the host sees it: its disk may be mounted for it alone.
fn root_of(sandbox: &str) -> String {
    let wanted = format!("SANDBOX_ID={sandbox}");
    let inside = |process: &std::path::Path| {
        let own =
            std::fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "sunaba-worker");
        let environment = if own { std::fs::read(process.join("environ")) } else { return false };
        environment.is_ok_and(|text| text.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()))
    };
    let mut processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .find(|process| inside(process))
        .map_or_else(String::new, |found| format!("{}/root", found.display()))
}

/// In hexadecimal, so that a search does not find itself.
fn needles(world: &World) -> String {
    let keys = &world.keys;
    let all = [
        &keys.anthropic,
        &keys.openai,
        &keys.google,
        &keys.github,
        &keys.secret_key,
        &keys.project_secret,
        &world.admin,
        &world.decoys.canary,
    ];
    let hex = |text: &String| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    all.map(hex).join(",")
}

/// What the attempts find outside: the stage's facts, and decoys in place of a sandbox's own things.
fn facts_outside(world: &World, stage: &Stage) -> Facts {
    let mut facts = world.decoys.outside();
    facts.extend(stage.facts.clone());
    let data = stage.facts["DATA"].clone();
    let server_pid = stage.facts["SERVER_PID"].clone();
    for (name, value) in [
        ("TOKEN", world.admin.clone()),
        ("BASE", world.url.clone()),
        ("OWN_ID", "ext-own".to_owned()),
        ("ORDINARY_TYPE", "escape.ordinary".to_owned()),
        ("MODEL_TOKEN", stage.facts["STOLEN_TOKEN"].clone()),
        ("SEARCH_ROOTS", data),
        ("SEARCH_PIDS", format!("{server_pid} {}", stage.facts["VICTIM_PID"])),
        ("DOOR", format!("{}/door", stage.facts["VICTIM_DIR"])),
        ("FILL_DIRS", world.decoys.path("scratch").display().to_string()),
        ("VICTIM_ROOT", root_of(&stage.victim)),
        ("SERVER_USER", if world.server_is_root() { "0" } else { "1" }.to_owned()),
    ] {
        facts.insert(name.to_owned(), value);
    }
    facts
}

async fn outside(world: &World, stage: &Stage) -> BTreeMap<Without, Results> {
    let facts = facts_outside(world, stage);
    let kinds = [
        Without::User,
        Without::Root,
        Without::NamespaceRoot,
        Without::Bubblewrap,
        Without::Server,
        Without::Admin,
    ];
    let run = || {
        kinds.into_iter().filter_map(|kind| Some((kind, bare::run(&world.decoys, kind, &facts)?))).collect()
    };
    tokio::task::block_in_place(run)
}

/// Starts the sandbox that tries to get out; its id.
async fn attack(world: &World, stage: &Stage) -> String {
    let lib = "/workspace/escape";
    let own = format!(
        "export TOKEN=$SANDBOX_TOKEN BASE=$CALLBACK_URL OWN_ID=$SANDBOX_ID OWN_BRANCH=$BRANCH_NAME SEARCH_ROOTS=/ \
         GIT_URL=$CALLBACK_URL/gateway/git/$PROJECT_ID OTHER_GIT_URL=$CALLBACK_URL/gateway/git/{}; ",
        stage.facts["OTHER_PROJECT"]
    );
    let command = format!("{}{own}bash {lib}/driver.sh {lib} inside attack", exports(&stage.facts));
    let traps = judged::traps(&world.decoys, &stage.facts);
    world.sandbox(&stage.project, &[command, traps], &Value::Null).await
}

/// What sandboxes with small limits try, each in one of its own: some end with it.
async fn limits(world: &World, stage: &Stage, report: &mut Report) {
    let facts = facts_outside(world, stage);
    let isolation = isolation(world).await;
    let category = attempts::LIMITS;
    let mut all: Vec<&Attempt> = category.attempts.iter().collect();
    if isolation["cpu"] == "kernel" {
        all.push(&attempts::PROCESSOR);
    } else {
        let why = format!("processor time is {} here", isolation["cpu"]);
        report.leave_out(category.name, &attempts::PROCESSOR, &why);
    }
    let lib = "/workspace/escape";
    let directory = |attempt: &Attempt| format!("limits/{}", attempt.name);
    let mut sandboxes = Vec::new();
    for attempt in &all {
        let command = format!("bash {lib}/driver.sh {lib} inside {}", directory(attempt));
        let resources = match attempt.name {
            "take-the-processors" => json!({ "cpu": 0.1 }),
            _ => json!({ "memory_gb": 0.5, "disk_gb": 0.25 }),
        };
        sandboxes.push(world.sandbox(&stage.project, &[command], &resources).await);
    }
    for (attempt, sandbox) in all.into_iter().zip(sandboxes) {
        let without = tokio::task::block_in_place(|| {
            bare::run_as_user(&world.decoys, &facts, "without", &directory(attempt))
        });
        let state = world.until_over(&sandbox).await;
        let mut inside = parse(&world.output(&sandbox).await);
        if state == "failed" {
            // It was ended for what it took.
            inside.entry(attempt.name.to_owned()).or_insert_with(|| "the sandbox was ended".to_owned());
        }
        take(report, category.name, attempt, Some(&without), &inside, world);
    }
}

/// What this world's provider enforces here, by its own account.
async fn isolation(world: &World) -> Value {
    let seen = world.get("/api/v1/system/isolation").await;
    let wanted = if world.kind == Kind::Docker { "docker" } else { "local" };
    let providers = seen["providers"].as_array().unwrap();
    let provider = providers.iter().find(|provider| provider["name"] == wanted).unwrap();
    provider["isolation"].clone()
}

/// Takes the attacked sandbox's attempt away from under it.
async fn superseded(world: &mut World, stage: &Stage, report: &mut Report) {
    let mut facts = facts_outside(world, stage);
    facts.insert("TOKEN".into(), stage.facts["STOLEN_TOKEN"].clone());
    facts.insert("GIT_URL".into(), format!("{}/gateway/git/{}", world.url, stage.project));
    let made = |world: &World, side: &str| {
        tokio::task::block_in_place(|| {
            bare::run_as_user(&world.decoys, &facts, side, attempts::SUPERSEDED.name)
        })
    };
    let before = made(world, "without");
    tokio::task::block_in_place(|| world.restart(|world| supersede(world, &stage.victim)));
    let after = made(world, "inside");
    for attempt in attempts::SUPERSEDED.attempts {
        take(report, attempts::SUPERSEDED.name, attempt, Some(&before), &after, world);
    }
}

/// As the store does when a later attempt of the task starts. It keeps what it knows of running tasks in memory,
/// so the server is not there while it is done. This suite is about walls and runs on the embedded store alone.
fn supersede(world: &World, sandbox: &str) {
    let script = "import sqlite3, sys; held = sqlite3.connect(sys.argv[1], timeout=10); \
        changed = held.execute('UPDATE tasks SET attempt = attempt + 1 WHERE id = (SELECT task_id FROM sandboxes WHERE id = ?)', (sys.argv[2],)); \
        held.commit(); sys.exit(changed.rowcount != 1)";
    let status = std::process::Command::new("/usr/bin/python3")
        .args(["-c", script])
        .arg(world.decoys.path("data/sunaba.db"))
        .arg(sandbox)
        .status()
        .unwrap();
    assert!(status.success(), "the task has another attempt now");
}
