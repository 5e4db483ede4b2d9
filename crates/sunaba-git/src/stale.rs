//! Removes `*.lock` files that a git that was killed left in a mirror.
//!
//! Whoever calls this holds the project's lock, so no git of ours is at work;
//! one that outlived its server is done for within the longest limit of a call.
//! Only files older than that go.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::LONG;
use crate::{Error, Result};

/// Removes what is older than any call may take.
pub(crate) fn clear_locks(git_dir: &Path) -> Result<()> {
    clear_older_than(git_dir, LONG)
        .map_err(Error::io(format!("clearing old lock files in {}", git_dir.display())))
}

fn clear_older_than(git_dir: &Path, age: Duration) -> io::Result<()> {
    // Locks are beside what they protect: the settings, the refs, and the lists in objects/info.
    let mut open: Vec<PathBuf> = vec![git_dir.join("refs")];
    clear_in(git_dir, age)?;
    clear_in(&git_dir.join("objects/info"), age)?;
    while let Some(dir) = open.pop() {
        open.extend(clear_in(&dir, age)?);
    }
    Ok(())
}

/// Removes the old locks of one directory and gives the directories in it.
fn clear_in(dir: &Path, age: Duration) -> io::Result<Vec<PathBuf>> {
    let mut below = Vec::new();
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(below),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            below.push(path);
        } else if path.extension().is_some_and(|extension| extension == "lock") && is_older(&path, age) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(below)
}

/// A lock from the future, or one that is gone, is not old.
fn is_older(path: &Path, age: Duration) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    modified.ok().and_then(|at| at.elapsed().ok()).is_some_and(|elapsed| elapsed > age)
}
