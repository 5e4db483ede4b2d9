//! How much a tree takes on disk, where no file system of its own says it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, chmod, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Files that are looked at in one pass.
const ENTRIES_MAX: u64 = 2_000_000;
/// Deeper than any honest tree; each level keeps a directory open while it is looked into.
const DEPTH_MAX: usize = 256;
/// Passes in a row that may be unable to see everything: a directory may be shut in the moment of one.
const HIDDEN_MAX: u32 = 3;

/// What a pass over a tree found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// What its files take, in bytes.
    pub bytes: u64,
    /// Whether the tree is larger or deeper than a pass looks at: what it takes is not known then.
    pub beyond: bool,
    /// Whether some of it could not be looked at.
    pub hidden: bool,
}

/// Judges pass after pass: what cannot be seen for long counts as too much.
#[derive(Debug, Default)]
pub struct Judge {
    hidden: u32,
}

impl Judge {
    /// Whether the limit is passed. A pass that failed saw nothing.
    pub fn is_too_much(&mut self, measured: &io::Result<Measured>, most: u64) -> bool {
        let hidden = measured.as_ref().map_or(true, |seen| seen.hidden);
        self.hidden = if hidden { self.hidden + 1 } else { 0 };
        let seen = measured.as_ref().is_ok_and(|seen| seen.beyond || seen.bytes > most);
        seen || self.hidden >= HIDDEN_MAX
    }
}

/// Adds up a tree without following links or leaving its file system. Directories that are shut to their owner are
/// opened for as long as they are looked into.
pub fn measure(top: &Path) -> io::Result<Measured> {
    let mut found = Measured::default();
    let mut entries = 0;
    let device = rustix::fs::stat(top)?.st_dev;
    let mut open = vec![Level::open(CWD, top.as_os_str())?];
    while let Some(level) = open.last_mut() {
        let name = match level.next_name() {
            Ok(Some(name)) => name,
            over => {
                found.hidden |= over.is_err();
                open.pop();
                continue;
            }
        };
        entries += 1;
        if entries > ENTRIES_MAX {
            found.beyond = true;
            return Ok(found);
        }
        let stat = match statat(&level.dir, name.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(error) => {
                found.hidden |= hides(error, level.is_own);
                continue;
            }
        };
        found.bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory && stat.st_dev == device {
            if open.len() >= DEPTH_MAX {
                found.beyond = true;
                continue;
            }
            let Some(level) = open.last() else { break };
            match Level::open(&level.dir, &name) {
                Ok(below) => open.push(below),
                Err(error) => found.hidden |= hides(error, is_own(&stat)),
            }
        }
    }
    Ok(found)
}

/// Whether something may be hidden behind an error. Something else, or nothing, may be there by now; and a sandbox
/// makes nothing that is another user's, but a daemon does, which mounts layers for it.
fn hides(error: Errno, is_own: bool) -> bool {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => false,
        Errno::ACCESS => is_own,
        _ => true,
    }
}

/// Whether it is this process's user's.
fn is_own(stat: &Stat) -> bool {
    stat.st_uid == geteuid().as_raw()
}

/// A directory that is looked into.
struct Level {
    dir: OwnedFd,
    is_own: bool,
    entries: Dir,
    /// Its mode before it was opened for looking.
    shut: Option<Mode>,
}

impl Level {
    fn open(parent: impl AsFd, name: &OsStr) -> Result<Self, Errno> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let looking = Mode::RUSR | Mode::XUSR;
        let place = openat(parent, name, flags | OFlags::PATH, Mode::empty())?;
        let stat = fstat(&place)?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        // By descriptor: whatever has the name by now is not touched. Only the owner can, and root need not.
        let open_up = !mode.contains(looking) && is_own(&stat);
        let shut = (open_up && chmod(way_to(&place), mode | looking).is_ok()).then_some(mode);
        let opened = openat(&place, ".", OFlags::RDONLY | flags, Mode::empty());
        let read = opened.and_then(|dir| Dir::read_from(&dir).map(|entries| (dir, entries)));
        match read {
            Ok((dir, entries)) => Ok(Self { dir, is_own: is_own(&stat), entries, shut }),
            Err(error) => {
                shut_again(&place, shut);
                Err(error)
            }
        }
    }

    fn next_name(&mut self) -> Result<Option<OsString>, Errno> {
        loop {
            let Some(entry) = self.entries.next() else { return Ok(None) };
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                return Ok(Some(name.to_owned()));
            }
        }
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        shut_again(&self.dir, self.shut);
    }
}

fn shut_again(dir: &OwnedFd, mode: Option<Mode>) {
    if let Some(mode) = mode {
        // One that stays open is looked into all the more easily.
        let _ = chmod(way_to(dir), mode);
    }
}

/// A path to exactly what is open.
fn way_to(open: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", open.as_raw_fd())
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

    #[test]
    fn what_lies_in_a_shut_directory_is_counted_and_stays_shut() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        for mode in [0o300, 0o600, 0o000] {
            let dir = root.path().join(format!("{mode:o}"));
            std::fs::create_dir(&dir).unwrap();
            std::fs::write(dir.join("file"), vec![1; 300_000]).unwrap();
            std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let seen = measure(root.path()).unwrap();
        assert!(seen.bytes > 900_000 && !seen.hidden, "{seen:?}");
        for mode in [0o300, 0o600, 0o000] {
            let now = root.path().join(format!("{mode:o}")).metadata().unwrap().permissions().mode();
            assert_eq!(now & 0o777, mode);
            std::fs::set_permissions(
                root.path().join(format!("{mode:o}")),
                std::fs::Permissions::from_mode(0o700),
            )
            .unwrap();
        }
    }

    #[test]
    fn what_cannot_be_seen_for_long_is_too_much() {
        let fine = Ok(Measured { bytes: 10, ..Measured::default() });
        let hidden = Ok(Measured { hidden: true, ..Measured::default() });
        let failed = Err(io::Error::other("no"));
        let mut judge = Judge::default();
        assert!(!judge.is_too_much(&fine, 10) && judge.is_too_much(&fine, 9));
        assert!(!judge.is_too_much(&hidden, 10) && !judge.is_too_much(&failed, 10));
        assert!(!judge.is_too_much(&fine, 10), "seen again");
        assert!(!judge.is_too_much(&hidden, 10) && !judge.is_too_much(&hidden, 10));
        assert!(judge.is_too_much(&failed, 10));
        assert!(Judge::default().is_too_much(&Ok(Measured { beyond: true, ..Measured::default() }), 10));
    }

    #[test]
    fn what_is_anothers_and_shut_is_no_hiding_place() {
        for (error, is_own, expected) in [
            (Errno::ACCESS, true, true),
            (Errno::ACCESS, false, false),
            (Errno::IO, false, true),
            (Errno::MFILE, false, true),
            (Errno::NOENT, true, false),
            (Errno::NOTDIR, true, false),
        ] {
            assert_eq!(hides(error, is_own), expected, "{error:?} {is_own}");
        }
    }
}
