//! Finds and kills processes of this test's own sandboxes, and of nobody else's.

use std::collections::BTreeSet;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use rand::rngs::StdRng;

/// Kills a shim of the data directory; whether there was one.
pub(super) fn kill_shim(data: &Path, random: &mut StdRng) -> bool {
    let shims: Vec<i32> = shims(data).into_iter().collect();
    kill_one(&shims, random, |pid| is_shim_of(pid, data))
}

/// Kills the worker's program in one of its roles, inside a sandbox of the data directory.
pub(super) fn kill_inside(data: &Path, role: &str, random: &mut StdRng) -> bool {
    kill_below(&shims(data), role, random)
}

/// Kills the worker's program in one of its roles, somewhere below these processes.
pub(super) fn kill_below(above: &BTreeSet<i32>, role: &str, random: &mut StdRng) -> bool {
    let matching: Vec<i32> =
        processes().filter(|pid| has_role(*pid, role) && descends_from(*pid, above)).collect();
    kill_one(&matching, random, |pid| descends_from(pid, above))
}

/// Kills one of these, if it still is what it was: the number may be another's by now.
pub(super) fn kill_one(pids: &[i32], random: &mut StdRng, still: impl Fn(i32) -> bool) -> bool {
    if pids.is_empty() {
        return false;
    }
    let pid = pids[random.random_range(0..pids.len())];
    pid > 1 && still(pid) && kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
}

pub(crate) fn processes() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub(crate) fn words(pid: i32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn has_role(pid: i32, role: &str) -> bool {
    let words = words(pid);
    words.first().is_some_and(|program| program.contains("sunaba-worker")) && words.iter().any(|w| w == role)
}

pub(crate) fn shims(data: &Path) -> BTreeSet<i32> {
    processes().filter(|pid| is_shim_of(*pid, data)).collect()
}

fn is_shim_of(pid: i32, data: &Path) -> bool {
    let words = words(pid);
    words.iter().any(|word| word == "shim") && words.iter().any(|word| Path::new(word).starts_with(data))
}

pub(crate) fn descends_from(pid: i32, ancestors: &BTreeSet<i32>) -> bool {
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
