//! A mirror's files. Refs and settings are read under the project's lock; objects and reflogs only ever grow, so
//! that they are read afterwards, as far as they went then, and nobody waits for a slow reader.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sunaba_git::ProjectLocks;
use walkdir::WalkDir;

use crate::Error;
use crate::tape::Tape;

/// How long a mirror may be in use.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a mirror was at one moment.
#[derive(Default)]
struct Looked {
    /// What changes: the path in the mirror, the mode, the content.
    held: Vec<(String, u32, Vec<u8>)>,
    /// What only grows: the path in the mirror, the mode, the size.
    growing: Vec<(String, u32, u64)>,
}

/// Writes every mirror in a directory; gives how many.
pub(crate) async fn write(tape: &mut Tape, root: &Path, locks: &ProjectLocks) -> Result<u64, Error> {
    let mut count = 0;
    for (name, dir) in mirrors(root)? {
        let project = name.strip_suffix(".git").unwrap_or(&name);
        let guard = locks.lock_within(project, PATIENCE).await?;
        let at = dir.clone();
        let looked = tokio::task::spawn_blocking(move || look(&at)).await;
        let looked = looked.map_err(|error| Error::Unusable(error.to_string()))??;
        drop(guard);
        for (path, mode, content) in looked.held {
            tape.bytes(&format!("git/{name}/{path}"), mode, content).await?;
        }
        for (path, mode, size) in looked.growing {
            tape.file(&format!("git/{name}/{path}"), mode, &dir.join(&path), size).await?;
        }
        count += 1;
    }
    Ok(count)
}

fn mirrors(root: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let entries = match std::fs::read_dir(root) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::file("cannot list", root))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::file("cannot list", root))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if name.ends_with(".git") && path.join("HEAD").is_file() {
            found.push((name, path));
        }
    }
    found.sort();
    Ok(found)
}

fn look(dir: &Path) -> Result<Looked, Error> {
    let mut looked = Looked::default();
    // Refs come before objects in the archive and are looked at first: what they name is there.
    let mut files: Vec<_> = WalkDir::new(dir)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| {
            let name = entry.file_name().to_string_lossy();
            // What is half received or about to be renamed; and programs, of which no mirror has any of ours.
            !name.starts_with("tmp_") && !name.ends_with(".lock") && name != "hooks"
        })
        .collect::<Result<_, _>>()
        .map_err(|error| {
            let what = format!("cannot list {}", dir.display());
            Error::File { what, source: error.into() }
        })?;
    files.retain(|entry| entry.file_type().is_file());
    for entry in files {
        let path = entry.path();
        let Some(inside) = path.strip_prefix(dir).ok().and_then(Path::to_str).map(str::to_owned) else {
            return Err(Error::Unusable(format!("{} has a name that is no text", path.display())));
        };
        let metadata = path.metadata().map_err(Error::file("cannot read", path))?;
        let mode = metadata.permissions().mode() & 0o755;
        if inside.starts_with("objects/") || inside.starts_with("logs/") {
            looked.growing.push((inside, mode, metadata.len()));
        } else {
            let content = std::fs::read(path).map_err(Error::file("cannot read", path))?;
            looked.held.push((inside, mode, content));
        }
    }
    Ok(looked)
}
