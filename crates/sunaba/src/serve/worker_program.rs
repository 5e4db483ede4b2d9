//! Where the worker program is that local sandboxes run.
//!
//! A released binary carries it and writes it into its data directory; a development build finds it beside
//! itself. A file is named by its content, so that a running sandbox keeps the one it started with.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sunaba_types::BlobHash;

use crate::failure::{Failure, Outcome};

/// The name of the worker program.
const NAME: &str = "sunaba-worker";

#[cfg(embedded_worker)]
const CARRIED: Option<&[u8]> = Some(include_bytes!(env!("SUNABA_EMBEDDED_WORKER")));
#[cfg(not(embedded_worker))]
const CARRIED: Option<&[u8]> = None;

/// The configured program, else the carried one, else the one beside this program.
pub(super) fn locate(configured: Option<&Path>, data_dir: &Path) -> Outcome<PathBuf> {
    let path = match (configured, CARRIED) {
        (Some(path), _) => path.to_owned(),
        (None, Some(program)) => unpack(program, &data_dir.join("bin"))?,
        (None, None) => std::env::current_exe()?.with_file_name(NAME),
    };
    if !path.exists() {
        tracing::warn!(
            path = %path.display(),
            "the worker program is missing, so no local sandbox can start; install it there or set SUNABA_WORKER"
        );
    }
    Ok(path)
}

/// Writes the program under a name of its content, unless it is there already.
fn unpack(program: &[u8], directory: &Path) -> Outcome<PathBuf> {
    let path = directory.join(format!("{NAME}-{}", &BlobHash::of(program).as_str()[..16]));
    if path.exists() {
        return Ok(path);
    }
    let written = path.with_extension("new");
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&written, program))
        .and_then(|()| std::fs::set_permissions(&written, Permissions::from_mode(0o755)))
        .and_then(|()| std::fs::rename(&written, &path))
        .map_err(|error| {
            Failure::other(format!("cannot write the worker program to {}: {error}", path.display()))
        })?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_carried_program_is_written_once_and_can_be_run() {
        let directory = tempfile::tempdir().unwrap();
        let first = unpack(b"#!/bin/sh\n", directory.path()).unwrap();
        assert_eq!(std::fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(unpack(b"#!/bin/sh\n", directory.path()).unwrap(), first);
        assert_ne!(unpack(b"#!/bin/sh\n# newer\n", directory.path()).unwrap(), first);
    }
}
