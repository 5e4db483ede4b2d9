//! Removes what a sandbox left, keeping its output.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sunaba_types::shim::OUTPUT_FILE;

use super::layout::{Layout, OWNER_FILE};

/// Moves the output away and removes the rest. The owner's record goes last: until then its
/// host user is not given to another.
pub(super) fn remove(layout: &Layout, log: &Path) -> io::Result<()> {
    if !layout.dir.exists() {
        return Ok(());
    }
    keep_output(&layout.path(OUTPUT_FILE), log)?;
    for entry in fs::read_dir(&layout.dir)? {
        let entry = entry?;
        if entry.file_name() == OWNER_FILE {
            continue;
        }
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        } else {
            absent_is_fine(fs::remove_file(entry.path()))?;
        }
    }
    absent_is_fine(fs::remove_file(layout.path(OWNER_FILE)))?;
    absent_is_fine(fs::remove_dir(&layout.dir))
}

fn keep_output(output: &Path, log: &Path) -> io::Result<()> {
    if !output.exists() {
        return Ok(());
    }
    if fs::rename(output, log).is_ok() {
        return Ok(());
    }
    // The log directory may be on another file system.
    fs::copy(output, log)?;
    fs::remove_file(output)
}

/// Removes a tree, also one whose directories were made unreadable by whoever worked in it.
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_directories(path)?;
            absent_is_fine(fs::remove_dir_all(path))
        }
        other => absent_is_fine(other),
    }
}

fn open_directories(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_directories(&entry.path())?;
        }
    }
    Ok(())
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_output_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout { dir: root.path().join("sandbox") };
        let locked = layout.path("workspace").join("locked");
        fs::create_dir_all(locked.join("deep")).unwrap();
        fs::write(locked.join("deep/file"), "x").unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
        fs::write(layout.path(OWNER_FILE), "{}").unwrap();
        fs::write(layout.path(OUTPUT_FILE), "said").unwrap();
        let log = root.path().join("sandbox.log");
        remove(&layout, &log).unwrap();
        assert!(!layout.dir.exists());
        assert_eq!(fs::read_to_string(&log).unwrap(), "said");
        remove(&layout, &log).expect("removing again is harmless");
    }
}
