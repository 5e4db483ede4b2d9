//! How much a tree takes on disk, where no file system of its own says it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

/// Files that are looked at in one pass.
const ENTRIES_MAX: u64 = 2_000_000;
/// Deeper than any honest tree; each level keeps a directory open while it is looked into.
const DEPTH_MAX: usize = 256;

/// What a pass over a tree found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// What its files take, in bytes.
    pub bytes: u64,
    /// Whether the tree is larger or deeper than a pass looks at: what it takes is not known then.
    pub beyond: bool,
}

/// Adds up a tree without following links or leaving its file system. What cannot be read is not counted.
pub fn measure(top: &Path) -> io::Result<Measured> {
    let mut found = Measured::default();
    let mut entries = 0;
    let device = rustix::fs::stat(top)?.st_dev;
    let mut open = vec![Level::open(CWD, top.as_os_str())?];
    while let Some(level) = open.last_mut() {
        let Some(name) = level.next_name() else {
            open.pop();
            continue;
        };
        entries += 1;
        if entries > ENTRIES_MAX {
            found.beyond = true;
            return Ok(found);
        }
        let Ok(stat) = statat(&level.dir, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
        found.bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory && stat.st_dev == device {
            if open.len() >= DEPTH_MAX {
                found.beyond = true;
                continue;
            }
            let Some(level) = open.last() else { break };
            if let Ok(below) = Level::open(&level.dir, &name) {
                open.push(below);
            }
        }
    }
    Ok(found)
}

struct Level {
    dir: OwnedFd,
    entries: Dir,
}

impl Level {
    fn open(parent: impl AsFd, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(parent, name, flags, Mode::empty())?;
        let entries = Dir::read_from(&dir)?;
        Ok(Self { dir, entries })
    }

    fn next_name(&mut self) -> Option<OsString> {
        loop {
            let entry = self.entries.next()?.ok()?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                return Some(name.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_blocks_and_follows_no_link() {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().join("top");
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        let empty = measure(&top).unwrap().bytes;
        std::fs::write(top.join("a/b/file"), vec![1; 300_000]).unwrap();
        std::fs::write(root.path().join("outside"), vec![1; 900_000]).unwrap();
        std::os::unix::fs::symlink(root.path(), top.join("link")).unwrap();
        std::fs::File::create(top.join("sparse")).unwrap().set_len(1 << 40).unwrap();
        let full = measure(&top).unwrap();
        assert!(!full.beyond);
        assert!((300_000..600_000).contains(&(full.bytes - empty)), "{full:?}");
    }

    #[test]
    fn a_tree_too_deep_to_be_measured_says_so() {
        let root = tempfile::tempdir().unwrap();
        let mut path = root.path().to_owned();
        for _ in 0..DEPTH_MAX + 1 {
            path.push("d");
        }
        std::fs::create_dir_all(&path).unwrap();
        assert!(measure(root.path()).unwrap().beyond);
    }
}
