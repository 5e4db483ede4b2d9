//! What a repository says to the agents that work on it: instructions, helpers and skills.
//!
//! All of it is looked for in the work tree's directories from its root to where the agent works; what is nearer wins.
//! Everything is bounded, and what cannot be read is passed over: a repository's mistake must not keep an agent from
//! its work.

mod agents;
mod front_matter;
mod instructions;
mod skills;

use std::path::{Path, PathBuf};

pub(super) use agents::{AgentKind, agents};
pub(crate) use instructions::instructions;
pub(super) use skills::{Skill, skills};

/// Most directories between a root and where an agent works that are looked into.
const PLACES_MAX: usize = 16;
/// Most files of one kind in one directory.
const ENTRIES_MAX: usize = 64;
const FILE_MAX_BYTES: u64 = 256 * 1024;

/// From the root of the work tree to where the agent works; only that, when it is in no repository.
fn places(cwd: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = Vec::new();
    for directory in cwd.ancestors().take(PLACES_MAX) {
        places.push(directory.to_owned());
        if directory.join(".git").exists() {
            places.reverse();
            return places;
        }
    }
    vec![cwd.to_owned()]
}

/// A text file of sensible size.
fn read(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > FILE_MAX_BYTES {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

/// What is in a directory, in the order of names.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.truncate(ENTRIES_MAX);
    paths
}

/// Puts something under its name, in place of what had that name.
fn put<T>(all: &mut Vec<T>, one: T, name: fn(&T) -> &str) {
    match all.iter_mut().find(|other| name(other) == name(&one)) {
        Some(other) => *other = one,
        None => all.push(one),
    }
}
