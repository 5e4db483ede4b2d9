//! Removes directory trees that somebody else made, whatever their shape.
//!
//! Nothing here recurses or holds a directory open per level: every directory
//! is moved up into one scratch directory before it is looked into, so a tree
//! of any depth becomes a flat list. Moving also refuses what is mounted over,
//! and no symbolic link is ever followed.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

/// How often a directory that fills up again is emptied before it is given up.
const PASSES_MAX: u32 = 16;

/// A scratch directory and the numbered directories in it that are still to be removed.
#[derive(Debug)]
pub(super) struct Clearing {
    path: PathBuf,
    dir: OwnedFd,
    device: u64,
    waiting: Vec<u64>,
    next: u64,
}

impl Clearing {
    /// Makes the scratch directory, or goes on with what a removal that was cut off left in it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        super::owner::create_private_dir(path)?;
        let dir = open_dir(AT_FDCWD, path.as_os_str())?;
        let device = fs::metadata(reopened(&dir))?.dev();
        let mut waiting = Vec::new();
        for entry in fs::read_dir(path)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.parse().ok());
            waiting.push(number.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{} is in use", path.display()))
            })?);
        }
        let next = waiting.iter().max().map_or(0, |last| last + 1);
        Ok(Self { path: path.to_owned(), dir, device, waiting, next })
    }

    /// Moves a directory in. Fails on a mount point, and on one of another file system.
    pub(super) fn take(&mut self, path: &Path) -> io::Result<()> {
        self.take_at(AT_FDCWD, path.as_os_str())
    }

    fn take_at(&mut self, parent: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<()> {
        let directory = open_dir(&parent, name)?;
        self.make_usable(&directory)?;
        let number = self.next;
        match renameat(parent, name, &self.dir, number.to_string().as_str()) {
            Err(Errno::ENOENT) => return Ok(()),
            other => other?,
        }
        self.next += 1;
        self.waiting.push(number);
        Ok(())
    }

    /// A directory may have been closed to its owner, who then could neither move nor empty it.
    fn make_usable(&self, directory: &OwnedFd) -> io::Result<()> {
        let path = reopened(directory);
        let metadata = fs::metadata(&path)?;
        if metadata.dev() != self.device {
            return Err(io::Error::new(
                io::ErrorKind::CrossesDevices,
                "another file system is mounted there",
            ));
        }
        if metadata.mode() & 0o700 != 0o700 {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    /// Removes everything that was moved in, and the scratch directory.
    pub(super) fn finish(mut self) -> io::Result<()> {
        while let Some(number) = self.waiting.pop() {
            self.remove_one(number)?;
        }
        fs::remove_dir(&self.path)
    }

    fn remove_one(&mut self, number: u64) -> io::Result<()> {
        let name = number.to_string();
        let directory = open_dir(&self.dir, OsStr::new(&name))?;
        for _ in 0..PASSES_MAX {
            self.empty(&directory)?;
            match unlinkat(&self.dir, name.as_str(), UnlinkatFlags::RemoveDir) {
                // A listing may miss what changes while it is read.
                Err(Errno::ENOTEMPTY | Errno::EEXIST) => {}
                other => return Ok(other?),
            }
        }
        Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, "a directory fills up while it is removed"))
    }

    fn empty(&mut self, directory: &OwnedFd) -> io::Result<()> {
        for entry in fs::read_dir(reopened(directory))? {
            let name = entry?.file_name();
            match unlinkat(directory, name.as_os_str(), UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => {}
                // What cannot be unlinked is a directory, or opening it as one tells why not.
                Err(_) => self.take_at(directory, &name)?,
            }
        }
        Ok(())
    }
}

/// Holds on to a directory without a right to read it, and never through a link.
fn open_dir(parent: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// The path by which a directory that is held can be read and changed.
fn reopened(directory: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

#[cfg(test)]
pub(super) mod tests {
    use nix::sys::stat::mkdirat;

    use super::*;

    /// Directories in each other, deeper than any path can name.
    pub(in super::super) fn dig(top: &Path, depth: usize) {
        fs::create_dir(top).unwrap();
        let mut at = open_dir(AT_FDCWD, top.as_os_str()).unwrap();
        for _ in 0..depth {
            mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
            at = open_dir(&at, OsStr::new("d")).unwrap();
        }
        fs::write(reopened(&at).join("bottom"), "x").unwrap();
    }

    #[test]
    fn links_are_removed_and_what_they_name_stays() {
        let root = tempfile::tempdir().unwrap();
        let (top, outside) = (root.path().join("workspace"), root.path().join("outside"));
        fs::create_dir_all(top.join("deep")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, top.join("deep/link")).unwrap();
        std::os::unix::fs::symlink(&outside, top.join("link")).unwrap();
        let mut clearing = Clearing::open(&root.path().join("scratch")).unwrap();
        clearing.take(&top).unwrap();
        clearing.finish().unwrap();
        assert!(!top.exists());
        assert!(outside.join("kept").exists());
        let mut clearing = Clearing::open(&root.path().join("scratch")).unwrap();
        std::os::unix::fs::symlink(&outside, &top).unwrap();
        assert!(clearing.take(&top).is_err(), "a link is not a directory to take");
    }

    #[test]
    fn a_removal_that_was_cut_off_goes_on() {
        let root = tempfile::tempdir().unwrap();
        let (top, scratch) = (root.path().join("workspace"), root.path().join("scratch"));
        fs::create_dir_all(top.join("a/b")).unwrap();
        Clearing::open(&scratch).unwrap().take(&top).unwrap();
        assert!(scratch.join("0/a/b").exists());
        let again = Clearing::open(&scratch).unwrap();
        again.finish().unwrap();
        assert!(!scratch.exists());
    }

    #[test]
    fn another_file_system_is_left_alone() {
        let root = tempfile::tempdir_in("/tmp").unwrap();
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        let device = |path: &Path| fs::metadata(path).unwrap().dev();
        if device(root.path()) == device(elsewhere.path()) {
            return; // There is only one file system here.
        }
        fs::write(elsewhere.path().join("kept"), "x").unwrap();
        let mut clearing = Clearing::open(&root.path().join("scratch")).unwrap();
        assert!(clearing.take(elsewhere.path()).is_err());
        assert!(elsewhere.path().join("kept").exists());
    }
}
