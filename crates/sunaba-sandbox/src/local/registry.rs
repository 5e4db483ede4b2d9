//! Which host users are taken on this machine, by whatever data directory.
//!
//! Two servers on one machine must not give the same user to two sandboxes: a
//! sandbox's processes are found, and ended, by it. Each claim is a file named
//! after the user that names the sandbox's directory; it counts for as long as
//! that directory names the user. The files are in `/run`, because after a
//! restart of the machine no process is left to be confused.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::layout::{Layout, OWNER_FILE};
use super::owner::{Owner, create_private_dir};

const PLACE: &str = "/run/sunaba-uids";
const LOCK_FILE: &str = ".lock";

/// The machine's claims, locked.
#[derive(Debug)]
pub(super) struct Registry {
    place: PathBuf,
    _lock: Flock<File>,
}

impl Registry {
    /// Locks the machine's claims; `None` where `/run` cannot be written, which only an ordinary user meets.
    pub(super) fn lock() -> io::Result<Option<Self>> {
        match Self::lock_at(Path::new(PLACE)) {
            Ok(registry) => Ok(Some(registry)),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
                    && !nix::unistd::geteuid().is_root() =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn lock_at(place: &Path) -> io::Result<Self> {
        create_private_dir(place)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(place.join(LOCK_FILE))?;
        let lock = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
        Ok(Self { place: place.to_owned(), _lock: lock })
    }

    /// Users that a sandbox still has; claims that no longer count are removed.
    pub(super) fn taken(&self) -> io::Result<HashSet<u32>> {
        let mut taken = HashSet::new();
        for entry in fs::read_dir(&self.place)? {
            let path = entry?.path();
            let Some(uid) = path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()) else {
                continue;
            };
            let layout = Layout { dir: PathBuf::from(OsString::from_vec(fs::read(&path)?)) };
            match layout.read::<Owner>(OWNER_FILE) {
                Ok(owner) if owner.is_none_or(|owner| owner.uid != Some(uid)) => fs::remove_file(&path)?,
                // Also when it cannot be read: giving one user to two sandboxes is worse than one number less.
                Ok(_) | Err(_) => {
                    taken.insert(uid);
                }
            }
        }
        Ok(taken)
    }

    /// Notes a claim. The caller writes the owner's file before it lets go of the lock.
    pub(super) fn claim(&self, uid: u32, dir: &Path) -> io::Result<()> {
        fs::write(self.place.join(uid.to_string()), dir.as_os_str().as_encoded_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_counts_while_its_directory_does() {
        let root = tempfile::tempdir().unwrap();
        let registry = Registry::lock_at(&root.path().join("uids")).unwrap();
        let layout = Layout { dir: root.path().join("sandbox") };
        fs::create_dir(&layout.dir).unwrap();
        registry.claim(7, &layout.dir).unwrap();
        layout.write(OWNER_FILE, &Owner { uid: Some(7) }).unwrap();
        assert_eq!(registry.taken().unwrap(), HashSet::from([7]));
        layout.write(OWNER_FILE, &Owner { uid: Some(8) }).unwrap();
        assert_eq!(registry.taken().unwrap(), HashSet::new(), "the directory names another");
        assert!(!root.path().join("uids/7").exists());
    }

    #[test]
    fn a_claim_whose_owner_cannot_be_read_still_counts() {
        let root = tempfile::tempdir().unwrap();
        let registry = Registry::lock_at(&root.path().join("uids")).unwrap();
        // Reading a directory fails for root too; half a record is no word about whose it is.
        for (uid, name) in [(7, "directory"), (8, "torn")] {
            let layout = Layout { dir: root.path().join(name) };
            fs::create_dir(&layout.dir).unwrap();
            registry.claim(uid, &layout.dir).unwrap();
        }
        fs::create_dir(root.path().join("directory").join(OWNER_FILE)).unwrap();
        fs::write(root.path().join("torn").join(OWNER_FILE), "{").unwrap();
        assert_eq!(registry.taken().unwrap(), HashSet::from([7, 8]));
        fs::remove_dir_all(root.path().join("directory")).unwrap();
        assert_eq!(registry.taken().unwrap(), HashSet::from([8]), "gone is clear");
    }
}
