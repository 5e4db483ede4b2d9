//! Single files of a sandbox, through the daemon's archives.
//!
//! The daemon resolves links inside the container, so none leads to its host; those that lead out of the
//! sandbox's own two directories are refused here.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bollard::query_parameters::{ContainerArchiveInfoOptionsBuilder, DownloadFromContainerOptionsBuilder};
use futures::StreamExt as _;
use sunaba_types::SandboxId;
use sunaba_types::shim::{HOME_INSIDE, WORKSPACE_INSIDE};
use tokio::time::timeout;

use super::engine::{Engine, failed, status};
use super::{remote, spec, tape};
use crate::Error;

/// Between two pieces of a file.
const PIECE: Duration = Duration::from_secs(30);
/// What an archive adds to a file: headers and padding.
const AROUND_BYTES: usize = 64 * 1024;
/// The bit with which the daemon marks a link, and the one for a directory.
const LINK: u32 = 1 << 27;
const DIRECTORY: u32 = 1 << 31;

/// Whose a new file is and what may be done with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owned {
    pub(super) uid: u32,
    pub(super) mode: u32,
}

/// Writes a file.
pub(super) async fn write(
    engine: &Engine,
    id: &SandboxId,
    path: &str,
    content: &[u8],
    Owned { uid, mode }: Owned,
) -> Result<(), Error> {
    let (folder, name) = split(path)?;
    check_folders(engine, id, path, folder).await?;
    if let Some(kind) = kind(engine, id, path).await?
        && kind & (LINK | DIRECTORY) != 0
    {
        return Err(bad(path, "is a link or a directory, not a file"));
    }
    let packed = tape::file(name, content, uid, mode & 0o777)?;
    remote::upload(engine, &spec::name(id), folder, packed).await
}

/// Reads a file.
pub(super) async fn read(
    engine: &Engine,
    id: &SandboxId,
    path: &str,
    limit: usize,
) -> Result<Vec<u8>, Error> {
    let (folder, _) = split(path)?;
    check_folders(engine, id, path, folder).await?;
    match kind(engine, id, path).await? {
        None => return Err(bad(path, "is not there")),
        Some(kind) if kind & (LINK | DIRECTORY) != 0 => {
            return Err(bad(path, "is a link or a directory, not a file"));
        }
        Some(_) => {}
    }
    let docker = engine.docker().await?;
    let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
    let mut pieces = pin!(docker.download_from_container(&spec::name(id), Some(options)));
    let mut packed = Vec::new();
    while packed.len() < limit.saturating_add(AROUND_BYTES) {
        match timeout(PIECE, pieces.next()).await {
            Ok(None) => break,
            Ok(Some(Ok(piece))) => packed.extend_from_slice(&piece),
            Ok(Some(Err(error))) => return Err(failed("read a file of the container")(error)),
            Err(_) => {
                return Err(Error::backend("read a file of the container")(io::ErrorKind::TimedOut.into()));
            }
        }
    }
    let unpacked =
        tape::first_file(&packed, limit).map_err(Error::backend("unpack a file of the container"))?;
    unpacked.ok_or_else(|| bad(path, "is not a file"))
}

/// The folder and the name of a path in the workspace or the home.
pub(super) fn split(path: &str) -> Result<(&str, &str), Error> {
    let own = [WORKSPACE_INSIDE, HOME_INSIDE]
        .iter()
        .any(|top| path.strip_prefix(top).is_some_and(|rest| rest.starts_with('/')));
    if !own {
        return Err(bad(path, "must lie in /workspace or /home/agent"));
    }
    let tame = path[1..].split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if !tame || path.contains('\0') {
        return Err(bad(path, "must be a plain path of a file, without . and .."));
    }
    path.rsplit_once('/').ok_or_else(|| bad(path, "is not absolute"))
}

/// Every folder on the way must be a real one: a link could lead out.
async fn check_folders(engine: &Engine, id: &SandboxId, path: &str, folder: &str) -> Result<(), Error> {
    let top = if folder.starts_with(HOME_INSIDE) { HOME_INSIDE } else { WORKSPACE_INSIDE };
    let below = folder.match_indices('/').map(|(at, _)| &folder[..at]).chain([folder]);
    for part in below.filter(|part| part.len() > top.len()) {
        match kind(engine, id, part).await? {
            Some(kind) if kind & LINK == 0 && kind & DIRECTORY != 0 => {}
            Some(_) => return Err(bad(path, "leads through a link")),
            None => return Err(bad(path, "lies in a folder that is not there")),
        }
    }
    Ok(())
}

/// The mode bits of what is there, as the daemon writes them.
async fn kind(engine: &Engine, id: &SandboxId, path: &str) -> Result<Option<u32>, Error> {
    let docker = engine.docker().await?;
    let options = ContainerArchiveInfoOptionsBuilder::new().path(path).build();
    let seen = docker.get_container_archive_info(&spec::name(id), Some(options)).await;
    match seen {
        Ok(seen) => Ok(Some(seen.file_mode)),
        Err(error) if status(&error) == Some(404) => Ok(None),
        Err(error) => Err(failed("look at a file of the container")(error)),
    }
}

fn bad(path: &str, reason: &str) -> Error {
    Error::BadPath { path: path.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_of_the_sandbox_are_taken() {
        assert_eq!(split("/workspace/a/b").unwrap(), ("/workspace/a", "b"));
        assert_eq!(split("/home/agent/x").unwrap(), ("/home/agent", "x"));
        for path in
            ["/etc/passwd", "/workspace", "/workspace/", "/workspace/../etc/x", "/workspacex/a", "a", ""]
        {
            assert!(matches!(split(path), Err(Error::BadPath { .. })), "{path}");
        }
    }
}
