//! What is left of sandboxes, wherever it may be.

use std::path::Path;

use super::victims::{processes, words};
use super::{World, has_ended};
use crate::api::Api;
use crate::leavings;

/// Rows that are not over, and everything of these sandboxes on this machine and at its daemon.
pub(super) async fn leftovers(
    api: &Api,
    data: &Path,
    ids: &[String],
    world: &World,
) -> anyhow::Result<Vec<String>> {
    let mut left = on_this_machine(data, ids);
    for id in ids {
        let row = api.get(&format!("/api/v1/sandboxes/{id}")).await?;
        if !has_ended(&row) {
            left.push(format!("row {id} is {}", row["state"]));
        }
    }
    if let World::Docker(daemon) = world {
        left.extend(daemon.containers()?.into_iter().map(|id| format!("container {id}")));
        left.extend(daemon.volumes()?.into_iter().map(|name| format!("volume {name}")));
    }
    Ok(left)
}

/// Everything of a data directory and of these sandboxes on this machine.
pub(crate) fn on_this_machine(data: &Path, ids: &[String]) -> Vec<String> {
    let mut left = leavings::left(data);
    left.extend(directories(data, ids));
    left.extend(processes_of(ids));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    left.extend(mounts.lines().filter(|line| speaks_of(ids, line)).map(|line| format!("mount {line}")));
    left
}

fn speaks_of(ids: &[String], text: &str) -> bool {
    ids.iter().any(|id| text.contains(id.as_str()))
}

fn directories(data: &Path, ids: &[String]) -> Vec<String> {
    let mut left = Vec::new();
    for place in ["sandboxes", "sandboxes/.disks", "containers", "containers/.disks"] {
        let of_ours = names(&data.join(place)).into_iter().filter(|name| speaks_of(ids, name));
        left.extend(of_ours.map(|name| format!("directory {place}/{name}")));
    }
    for folder in names(&data.join("layers")) {
        let unfinished = names(&data.join("layers").join(folder));
        left.extend(
            unfinished.into_iter().filter(|name| name.starts_with('.')).map(|name| format!("layer {name}")),
        );
    }
    left
}

pub(crate) fn processes_of(ids: &[String]) -> Vec<String> {
    let mut left = Vec::new();
    for pid in processes() {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let words = words(pid).join(" ");
        if speaks_of(ids, &words) || speaks_of(ids, &String::from_utf8_lossy(&environment)) {
            left.push(format!("process {pid}: {words}"));
        }
    }
    left
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
