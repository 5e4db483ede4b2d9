//! Which host user each sandbox runs as.
//!
//! The choice is written into the sandbox's directory before anything else is
//! made there, so it survives restarts, and no user is given out again while a
//! directory names it. Numbers are given out in a circle, so that one that was
//! just freed is not the next.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::ops::RangeInclusive;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::layout::{Layout, OWNER_FILE};
use super::registry::Registry;
use crate::Error;

/// Host users for sandboxes when the server is root.
pub const UID_RANGE: RangeInclusive<u32> = 200_000..=265_535;

const LOCK_FILE: &str = ".uids.lock";

/// Whose a sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// `None` when the server itself is an ordinary user.
    pub(crate) uid: Option<u32>,
}

/// Makes the sandbox's directory and its owner, or finds both.
pub(crate) fn claim(root: &Path, layout: &Layout, separate_users: bool) -> Result<Owner, Error> {
    if let Some(owner) = layout.read(OWNER_FILE).map_err(Error::backend("read the sandbox's owner"))? {
        return Ok(owner);
    }
    let mut cursor = lock(root).map_err(Error::backend("lock the list of sandbox users"))?;
    // Another may have claimed it while this one waited for the lock.
    if let Some(owner) = layout.read(OWNER_FILE).map_err(Error::backend("read the sandbox's owner"))? {
        return Ok(owner);
    }
    let machine = if separate_users {
        Registry::lock().map_err(Error::backend("lock the machine's sandbox users"))?
    } else {
        None
    };
    let uid = if separate_users { Some(next_uid(root, &mut cursor, machine.as_ref())?) } else { None };
    let owner = Owner { uid };
    create_private_dir(&layout.dir).map_err(Error::backend("make the sandbox's directory"))?;
    if let (Some(machine), Some(uid)) = (&machine, uid) {
        machine.claim(uid, &layout.dir).map_err(Error::backend("claim a sandbox user"))?;
    }
    layout.write(OWNER_FILE, &owner).map_err(Error::backend("write the sandbox's owner"))?;
    Ok(owner)
}

/// Makes a directory that only the server may enter; an existing one is kept.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn lock(root: &Path) -> io::Result<Flock<File>> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(root.join(LOCK_FILE))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
}

fn next_uid(root: &Path, cursor: &mut Flock<File>, machine: Option<&Registry>) -> Result<u32, Error> {
    let mut used = used_uids(root).map_err(Error::backend("list the sandbox users in use"))?;
    if let Some(machine) = machine {
        used.extend(machine.taken().map_err(Error::backend("list the machine's sandbox users"))?);
    }
    let last = read_cursor(cursor).map_err(Error::backend("read the last sandbox user"))?;
    let uid = choose(&UID_RANGE, last, &used).ok_or(Error::NoUidLeft)?;
    write_cursor(cursor, uid).map_err(Error::backend("write the last sandbox user"))?;
    Ok(uid)
}

fn used_uids(root: &Path) -> io::Result<HashSet<u32>> {
    let mut used = HashSet::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let layout = Layout { dir: entry.path() };
        if let Some(Owner { uid: Some(uid) }) = layout.read(OWNER_FILE)? {
            used.insert(uid);
        }
    }
    Ok(used)
}

/// The first free number after `last`, going round.
fn choose(range: &RangeInclusive<u32>, last: Option<u32>, used: &HashSet<u32>) -> Option<u32> {
    let start = last.filter(|last| range.contains(last)).map_or(*range.start(), |last| last + 1);
    (start..=*range.end()).chain(*range.start()..start).find(|uid| !used.contains(uid))
}

fn read_cursor(file: &mut File) -> io::Result<Option<u32>> {
    let mut text = String::new();
    file.rewind()?;
    file.take(32).read_to_string(&mut text)?;
    Ok(text.trim().parse().ok())
}

fn write_cursor(file: &mut File, uid: u32) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{uid}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sunaba_types::SandboxId;

    #[test]
    fn goes_round_and_skips_what_is_in_use() {
        let range = 10..=12;
        assert_eq!(choose(&range, None, &HashSet::new()), Some(10));
        assert_eq!(choose(&range, Some(12), &HashSet::new()), Some(10));
        assert_eq!(choose(&range, Some(10), &HashSet::from([11])), Some(12));
        assert_eq!(choose(&range, Some(11), &HashSet::from([10, 11, 12])), None);
        assert_eq!(choose(&range, Some(99), &HashSet::from([10])), Some(11), "a foreign cursor is ignored");
    }

    #[test]
    fn a_claim_is_kept_and_never_shared() {
        let root = tempfile::tempdir().unwrap();
        let layout = |name: &str| Layout::new(root.path(), &SandboxId::parse(name).unwrap());
        let first = claim(root.path(), &layout("one"), true).unwrap();
        let second = claim(root.path(), &layout("two"), true).unwrap();
        assert_ne!(first.uid, second.uid);
        assert_eq!(claim(root.path(), &layout("one"), true).unwrap(), first, "asked again: the same");
        std::fs::remove_dir_all(layout("one").dir).unwrap();
        let third = claim(root.path(), &layout("three"), true).unwrap();
        assert_ne!(third.uid, second.uid);
        assert_ne!(third.uid, first.uid, "a freed number is not the next to be given out");
        assert_eq!(claim(root.path(), &layout("four"), false).unwrap().uid, None);
    }

    #[test]
    fn concurrent_claims_differ() {
        let root = tempfile::tempdir().unwrap();
        let uids: HashSet<_> = std::thread::scope(|scope| {
            let claims: Vec<_> = (0..8)
                .map(|n| {
                    let root = root.path();
                    scope.spawn(move || {
                        let id = SandboxId::parse(format!("s{n}")).unwrap();
                        claim(root, &Layout::new(root, &id), true).unwrap().uid
                    })
                })
                .collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        assert_eq!(uids.len(), 8);
    }
}
