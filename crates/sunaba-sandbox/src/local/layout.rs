//! Where a local sandbox keeps what: one directory each, named after its id.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sunaba_types::SandboxId;
use sunaba_types::shim;

use crate::disk;

/// The file that says what the sandbox may use; written once, before its places are made.
pub(crate) const LIMITS_FILE: &str = "limits.json";
/// The file that says which control groups it has; written before its shim is started.
pub const GROUPS_FILE: &str = "groups.json";
/// The file that says which host user the sandbox has; written before anything else, removed last.
pub(crate) const OWNER_FILE: &str = "owner.json";

/// One sandbox's directory.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) dir: PathBuf,
}

impl Layout {
    pub(crate) fn new(root: &Path, id: &SandboxId) -> Self {
        Self { dir: root.join(id.as_str()) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The directory of workspace and home as the host sees it: on the sandbox's own disk, if it has one.
    pub(crate) fn disk(&self) -> PathBuf {
        match (self.path(disk::IMAGE_FILE).exists(), self.dir.parent(), self.dir.file_name()) {
            (true, Some(root), Some(name)) => root.join(disk::MOUNTS_DIR).join(name),
            _ => self.path(disk::DISK_DIR),
        }
    }

    /// Reads one of the JSON files; `None` when it is not there.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match std::fs::read(self.path(name)) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {error}"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes one of the JSON files so that a reader sees all of it or nothing.
    pub(crate) fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let temporary = self.path(&format!(".{name}.new"));
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.sync_data()?;
        std::fs::rename(&temporary, self.path(name))
    }

    /// Whether a shim holds this sandbox right now: it keeps the lock for as long as it lives.
    pub(crate) fn shim_holds_lock(&self) -> io::Result<bool> {
        use nix::fcntl::{Flock, FlockArg};
        let file = match std::fs::File::open(self.path(shim::LOCK_FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_lock) => Ok(false),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(true),
            Err((_, errno)) => Err(errno.into()),
        }
    }
}
