//! What lies in the servers' folders of sandboxes.

use std::path::Path;

use anyhow::Context;

use super::checker::Place;

/// How our own sandboxes are named; whatever else a provider keeps there begins with a dot.
const SANDBOX: &str = "sbx_";

/// The directories of sandboxes that each server has now, whoever they belong to.
pub(super) fn look(nodes: &[&Path]) -> anyhow::Result<Vec<Place>> {
    nodes.iter().map(|data| look_at(data)).collect()
}

fn look_at(data: &Path) -> anyhow::Result<Place> {
    let node = std::fs::read_to_string(data.join("node-id")).context("node-id")?.trim().to_owned();
    let entries = std::fs::read_dir(data.join("sandboxes")).context("sandboxes")?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(Place { node, sandboxes: names.filter(|name| name.starts_with(SANDBOX)).collect() })
}
