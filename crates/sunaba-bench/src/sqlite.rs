//! SQLite's own limits, measured by the store crate's example (only store crates speak SQL).

use std::process::Command;

use anyhow::{Context, ensure};

/// What SQLite itself commits here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnLimits {
    pub(crate) single_commits: f64,
    pub(crate) hundred_rows: f64,
}

pub(crate) fn own_limits() -> anyhow::Result<OwnLimits> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["run", "--quiet", "--release", "-p", "sunaba-store-sqlite", "--example", "own_limits"])
        .output()
        .context("cannot run the own_limits example")?;
    ensure!(output.status.success(), "own_limits: {}", String::from_utf8_lossy(&output.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let figure = |name: &str| figures[name].as_f64().with_context(|| name.to_owned());
    Ok(OwnLimits {
        single_commits: figure("single_commits_per_s")?,
        hundred_rows: figure("hundred_row_rows_per_s")?,
    })
}
