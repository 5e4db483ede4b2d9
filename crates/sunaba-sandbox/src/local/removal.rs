//! Removes what a sandbox left, keeping its output.

use std::fs;
use std::io;
use std::path::Path;

use sunaba_types::shim::OUTPUT_FILE;

use super::layout::{Layout, OWNER_FILE};
use super::tree::Clearing;

/// Where directories go on their way out. Nothing in a sandbox can name it, and it is made together with the
/// sandbox: a disk that the sandbox filled has no room for one more directory.
pub(crate) const SCRATCH_DIR: &str = ".removing";

/// Moves the output away and removes the rest. The owner's record goes last: until then its
/// host user is not given to another.
pub(crate) fn remove(layout: &Layout, log: &Path) -> io::Result<()> {
    if !layout.dir.exists() {
        return Ok(());
    }
    keep_output(&layout.path(OUTPUT_FILE), log)?;
    let mut clearing = Clearing::open(&layout.path(SCRATCH_DIR))?;
    for entry in fs::read_dir(&layout.dir)? {
        let entry = entry?;
        if entry.file_name() == OWNER_FILE || entry.file_name() == SCRATCH_DIR {
            continue;
        }
        if entry.file_type()?.is_dir() {
            clearing.take(&entry.path())?;
        } else {
            absent_is_fine(fs::remove_file(entry.path()))?;
        }
    }
    clearing.finish()?;
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

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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

    #[test]
    fn no_depth_overflows_the_stack_or_the_table_of_open_files() {
        // In memory where there is such a place: so many directories take a disk long.
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let layout = Layout { dir: root.path().join("sandbox") };
        fs::create_dir(&layout.dir).unwrap();
        fs::write(layout.path(OWNER_FILE), "{}").unwrap();
        super::super::tree::tests::dig(&layout.path("workspace"), 30_000);
        let (dir, log) = (layout.dir.clone(), root.path().join("sandbox.log"));
        let work = move || remove(&layout, &log);
        let thread = std::thread::Builder::new().stack_size(128 * 1024).spawn(work).unwrap();
        thread.join().unwrap().unwrap();
        assert!(!dir.exists());
    }
}
