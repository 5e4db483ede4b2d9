//! The preset `registries`, from a reviewed data file.

use std::sync::LazyLock;

use super::pattern::Pattern;

/// One host of the preset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry {
    /// The host.
    pub pattern: Pattern,
    /// Whose packages.
    pub ecosystem: &'static str,
    /// What it is needed for.
    pub reason: &'static str,
}

static LISTED: LazyLock<Vec<Registry>> = LazyLock::new(|| read(include_str!("registries.txt")));

/// Every host of the preset.
pub fn registries() -> &'static [Registry] {
    &LISTED
}

/// A line that cannot be read opens nothing; a test reads them all.
fn read(text: &'static str) -> Vec<Registry> {
    text.lines().filter(|line| is_entry(line)).filter_map(entry).collect()
}

pub(super) fn is_entry(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

pub(super) fn entry(line: &'static str) -> Option<Registry> {
    let mut fields = line.splitn(3, '|').map(str::trim);
    let pattern = Pattern::parse(fields.next()?).ok()?;
    let (ecosystem, reason) = (fields.next()?, fields.next()?);
    (!ecosystem.is_empty() && !reason.is_empty()).then_some(Registry { pattern, ecosystem, reason })
}
