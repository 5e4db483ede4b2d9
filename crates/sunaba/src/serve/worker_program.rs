//! Where the worker program is that local sandboxes run.
//!
//! A released binary carries it and writes it into its data directory; a development build finds it beside
//! itself. A file is named by its content, so that a running sandbox keeps the one it started with.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::mman::{MmapAdvise, madvise};

use crate::failure::{Failure, Outcome};

/// The name of the worker program.
const NAME: &str = "sunaba-worker";

/// A worker program that is part of this one.
struct Carried {
    program: &'static [u8],
    /// Tells it apart from those of other versions.
    digest: &'static str,
}

#[cfg(embedded_worker)]
const CARRIED: Option<Carried> = Some(Carried {
    program: include_bytes!(env!("SUNABA_EMBEDDED_WORKER")),
    digest: env!("SUNABA_EMBEDDED_WORKER_DIGEST"),
});
#[cfg(not(embedded_worker))]
const CARRIED: Option<Carried> = None;

/// The configured program, else the carried one, else the one beside this program.
pub(super) fn locate(configured: Option<&Path>, data_dir: &Path) -> Outcome<PathBuf> {
    let path = match (configured, CARRIED) {
        (Some(path), _) => path.to_owned(),
        (None, Some(carried)) => unpack(&carried, &data_dir.join("bin"))?,
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
fn unpack(carried: &Carried, directory: &Path) -> Outcome<PathBuf> {
    let path = directory.join(format!("{NAME}-{}", carried.digest));
    if path.exists() {
        return Ok(path);
    }
    let written = path.with_extension("new");
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&written, carried.program))
        .and_then(|()| std::fs::set_permissions(&written, Permissions::from_mode(0o755)))
        .and_then(|()| std::fs::rename(&written, &path))
        .map_err(|error| {
            Failure::other(format!("cannot write the worker program to {}: {error}", path.display()))
        })?;
    give_back(carried.program);
    Ok(path)
}

/// Lets go of the memory in which this part of the program's file was read: a third of what an idle server has.
#[expect(unsafe_code, reason = "there is no safe way to say it")]
fn give_back(part: &'static [u8]) {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(4096);
    let before = part.as_ptr().align_offset(page);
    let Some(whole) = part.get(before..).map(|rest| &rest[..rest.len() / page * page]) else { return };
    let Some(start) = std::ptr::NonNull::new(whole.as_ptr().cast_mut().cast()) else { return };
    // SAFETY: the pages are read-only constants of the program's file, whole ones and nothing beside them. Whoever
    // reads them again gets the same bytes from the file.
    let _ = unsafe { madvise(start, whole.len(), MmapAdvise::MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_carried_program_is_written_once_and_can_be_run() {
        let directory = tempfile::tempdir().unwrap();
        let carried = |program, digest| unpack(&Carried { program, digest }, directory.path()).unwrap();
        let first = carried(b"#!/bin/sh\n", "1");
        assert_eq!(std::fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(carried(b"#!/bin/sh\n", "1"), first);
        assert_ne!(carried(b"#!/bin/sh\n# newer\n", "2"), first);
    }

    #[test]
    fn what_was_given_back_is_still_there() {
        // As constants of the program's file are; in a test's own heap the pages would come back empty.
        static PART: [u8; 20_000] = [7; 20_000];
        give_back(&PART);
        assert!(PART.iter().all(|byte| *byte == 7));
        give_back(&PART[..1]);
    }
}
