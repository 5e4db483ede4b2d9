//! Which node this is: an id that stays with the data directory, and marks of process and machine.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sunaba_types::NodeId;

/// The file in the data directory.
const FILE: &str = "node-id";

/// Why a data directory has no node's id.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be used.
    #[error("the node's id cannot be kept in {path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What is in it is no id.
    #[error(
        "{0} holds no node's id; restore it from a backup, or remove it if this was never a node of a shared database"
    )]
    Malformed(PathBuf),
}

/// The id of the node that this data directory belongs to; made at the first start.
pub fn read_or_make_id(data_dir: &Path) -> Result<NodeId, IdentityError> {
    let path = data_dir.join(FILE);
    let failed = |source| IdentityError::File { path: path.clone(), source };
    match fs::read_to_string(&path) {
        Ok(text) => NodeId::parse(text.trim()).map_err(|_| IdentityError::Malformed(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = NodeId::generate();
            write_once(&path, id.as_str()).map_err(failed)?;
            Ok(id)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Under another name first: a crash in between leaves no half id.
fn write_once(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("new");
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

/// A mark of this process that no other has.
pub fn new_instance() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

/// A mark of this machine, as far as it can be told: the same after a restart, another one elsewhere.
pub fn host() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (name, machine) = (read("/proc/sys/kernel/hostname"), read("/etc/machine-id"));
    format!("{}/{}", name.trim(), machine.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_made_once_and_never_made_up_again() {
        let dir = tempfile::tempdir().unwrap();
        let id = read_or_make_id(dir.path()).unwrap();
        assert_eq!(read_or_make_id(dir.path()).unwrap(), id);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft stays behind");
        fs::write(dir.path().join(FILE), "not an id!\n").unwrap();
        assert!(matches!(read_or_make_id(dir.path()), Err(IdentityError::Malformed(_))));
        assert!(matches!(read_or_make_id(Path::new("/nowhere/at/all")), Err(IdentityError::File { .. })));
    }
}
