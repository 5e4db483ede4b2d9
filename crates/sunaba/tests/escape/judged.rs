//! Attempts that are judged by what they leave on the host: things that a sandbox lays out for the server to
//! fall for, and floods.

use std::path::Path;

use serde_json::{Value, json};

use crate::decoys::{Decoys, Facts, as_user};
use crate::outcome::Report;
use crate::sandboxes::exports;
use crate::world::World;

/// Lays traps into a repository: links out of it, and programs that git would run in it.
const TRAPS: &str = r#"
ln -s "$DECOY/file" link-to-file
ln -s "$DECOY" link-to-directory
mkdir -p .git/hooks
for hook in pre-commit post-commit post-checkout post-merge pre-push post-index-change reference-transaction pre-receive update post-receive; do
    printf '#!/bin/sh\ntouch %s/hook\n' "$TRACKS" > .git/hooks/$hook
    chmod +x .git/hooks/$hook
done
git config core.hooksPath .git/hooks
git config core.fsmonitor "touch $TRACKS/fsmonitor #"
git config filter.trap.clean "touch $TRACKS/filter; cat"
git config diff.external "touch $TRACKS/external-diff #"
git config core.pager "touch $TRACKS/pager #"
git config credential.helper "!touch $TRACKS/credential #"
echo '* filter=trap diff=trap' > .gitattributes
echo bait > bait
"#;

/// What a server that fell for them would do: read through the link and let git work in the repository.
const FALL: &str = r#"
git init -q . && git config user.name x && git config user.email x@x.invalid && git commit -q --allow-empty -m x
@TRAPS@
cat link-to-file
git status >/dev/null; git add . ; git commit -q -m x; git diff HEAD~1 >/dev/null; ls "$TRACKS"
"#;

/// Commands that an attacker runs when everything else is tried.
pub(crate) fn traps(decoys: &Decoys, facts: &Facts) -> String {
    let tracks = decoys.path("tracks");
    format!("{}export TRACKS='{}'; cd /workspace; {TRAPS}", exports(facts), tracks.display())
}

/// Whether the server fell for the traps of a sandbox that has come to its end.
pub(crate) async fn sprung(world: &World, sandbox: &str, report: &mut Report) {
    let state = world.until_over(sandbox).await;
    if state != "completed" {
        let last = world.get(&format!("/api/v1/sandboxes/{sandbox}/events?limit=5")).await;
        report.fault(format!(
            "the attacker ended as {state}, so the server had no chance to fall for it: {last}"
        ));
    }
    let diff = world.get(&format!("/api/v1/sandboxes/{sandbox}/diff")).await.to_string();
    if !diff.contains("link-to-file") {
        report.fault(format!("the traps never reached the server: {diff}"));
    }
    let inside = (diff.contains(&world.decoys.canary), world.decoys.tracks());
    let (read, tracks) = tokio::task::block_in_place(|| fall(&world.decoys));
    world.decoys.sweep();
    report.take_judged("traps", "links-read-by-the-server", read, inside.0);
    for name in ["hook", "fsmonitor", "filter", "external-diff"] {
        let found = |tracks: &[String]| tracks.iter().any(|track| track == name);
        report.take_judged("traps", name, found(&tracks), found(&inside.1));
    }
}

/// The same traps in a repository of the ordinary user, and git as one would naively run it there.
fn fall(decoys: &Decoys) -> (bool, Vec<String>) {
    let dir = decoys.path("scratch/fallen");
    assert!(as_user("mkdir").arg(&dir).status().unwrap().success());
    let script = FALL.replace("@TRAPS@", TRAPS);
    let mut facts = decoys.outside();
    facts.insert("TRACKS".to_owned(), decoys.path("tracks").display().to_string());
    let output =
        as_user("bash").args(["-c", &script]).env_clear().envs(facts).current_dir(&dir).output().unwrap();
    (String::from_utf8_lossy(&output.stdout).contains(&decoys.canary), decoys.tracks())
}

/// Writes more than anyone can want to read, by every way there is; then ends everything it can reach.
const FLOOD: &str = r#"
head -c 150000000 /dev/zero | tr '\0' x
for out in /proc/[0-9]*/fd/1; do
    [ -p "$out" ] && { head -c 100000000 /dev/zero | tr '\0' y | timeout 10 dd of="$out" bs=64k oflag=nonblock iflag=fullblock status=none; } 2>/dev/null &
done
wait
python3 -c '
import os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
try:
    while True:
        os.dup(1)
except OSError as error:
    os.write(2, b"no more descriptors\n")
import time; time.sleep(2)
' &
sleep 1
echo FLOODED
sleep 3
kill -9 -1
"#;

/// Most of the server's memory that one sandbox's floods may cost, in KiB.
const MEMORY_GROWTH_MAX_KIB: u64 = 200 * 1024;
/// Most of the disk that they may cost: the output that is kept, one long output as a blob, and events.
const DISK_GROWTH_MAX_BYTES: u64 = 300 * 1024 * 1024;

/// The same in a pid namespace of its own with nobody to bound it: how much was written, and whether a
/// neighbour in it was killed.
fn flood_without(decoys: &Decoys) -> (bool, bool) {
    let script =
        "sleep 60 & head -c 150000000 /dev/zero | tr '\\0' x; bash -c 'kill -9 -1'; wait; echo unharmed";
    let mut command = as_user("bwrap");
    command.args([
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ]);
    let output =
        command.args(["--", "bash", "-c", script]).current_dir(decoys.path("scratch")).output().unwrap();
    (output.stdout.len() >= 150_000_000, !output.stdout.ends_with(b"unharmed\n"))
}

/// A sandbox that floods, and what became of the host meanwhile.
pub(crate) async fn flood(world: &mut World, project: &str, bystander: &str, report: &mut Report) {
    let (flooded, killed) = tokio::task::block_in_place(|| flood_without(&world.decoys));
    let (memory, disk) = (resident_kib(world.server_pid()), size(&world.decoys.path("data")));
    let sandbox = world.sandbox(project, &[FLOOD.to_owned()], &Value::Null).await;
    let state = world.until_over(&sandbox).await;
    let grown = resident_kib(world.server_pid()).saturating_sub(memory);
    report.take_judged("floods", "the-servers-memory", flooded, grown > MEMORY_GROWTH_MAX_KIB);
    let written = size(&world.decoys.path("data")).saturating_sub(disk);
    report.take_judged("floods", "the-servers-disk", flooded, written > DISK_GROWTH_MAX_BYTES);
    let events = world.get(&format!("/api/v1/sandboxes/{sandbox}/events?limit=1")).await;
    let many = events["total_count"].as_i64().unwrap() > 2000;
    report.take_judged("floods", "the-log", flooded, many);
    // It ended itself, not the server and not its neighbour.
    if state != "failed" {
        report.fault(format!("a sandbox that killed everything in it is {state}"));
    }
    report.take_judged("floods", "kill-the-server", killed, !world.is_alive());
    let running = world.state(bystander).await;
    report.take_judged("floods", "kill-the-neighbour", killed, running != "running");
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn size(dir: &Path) -> u64 {
    let output = std::process::Command::new("du").args(["-s", "--block-size=1"]).arg(dir).output().unwrap();
    String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// A repository that asks for a directory of the host in its own settings file.
pub(crate) async fn greedy(world: &World, report: &mut Report) {
    let wish = format!("toolchains: ['{}']\n", world.decoys.path("decoy").display());
    let mut seen = Vec::new();
    for (name, allowed) in [("granted", json!([world.decoys.path("decoy")])), ("greedy", json!([]))] {
        let project =
            world.project_with(name, &json!({ "toolchains": allowed }), &[(".sunaba.yaml", &wish)]).await;
        let command = format!("cat {}/file; echo LOOKED", world.decoys.path("decoy").display());
        let sandbox = world.sandbox(&project, &[command], &Value::Null).await;
        seen.push(world.until(&sandbox, "LOOKED").await.contains(&world.decoys.canary));
        world.end(&sandbox).await;
    }
    report.take_judged("traps", "directories-that-a-repository-asks-for", seen[0], seen[1]);
}
