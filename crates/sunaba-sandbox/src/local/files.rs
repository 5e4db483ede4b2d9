//! Files of a sandbox, written and read from the host.
//!
//! What lies below the workspace and the home was made by somebody who may mean
//! ill: every path is resolved by the kernel below an open directory, no link
//! leads out of it, and only regular files are opened for reading.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, fchmod, fchown, fstat, mkdirat, openat,
    openat2, renameat, unlinkat,
};
use rustix::io::Errno;
use sunaba_types::shim::{HOME_DIR, HOME_INSIDE, WORKSPACE_DIR, WORKSPACE_INSIDE};

use crate::Error;

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
/// A rename under way makes the kernel ask again.
const TRIES: u32 = 16;
/// The permissions that may be asked for: no set-user-id, no sticky bit.
const MODE_MAX: u32 = 0o777;

/// A path inside, as a directory of the sandbox and what lies below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inside {
    /// The name of the sandbox's directory it lies in.
    pub(crate) dir: &'static str,
    below: PathBuf,
    given: String,
}

impl Inside {
    pub(crate) fn parse(path: &str) -> Result<Self, Error> {
        let bad = |reason: &str| Error::BadPath { path: path.to_owned(), reason: reason.to_owned() };
        if path.contains('\0') {
            return Err(bad("holds a NUL character"));
        }
        let whole = Path::new(path);
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !whole.is_absolute() || !whole.components().all(plain) {
            return Err(bad("not an absolute path without `..`"));
        }
        let places = [(WORKSPACE_INSIDE, WORKSPACE_DIR), (HOME_INSIDE, HOME_DIR)];
        for (inside, dir) in places {
            if let Ok(below) = whole.strip_prefix(inside) {
                if below.as_os_str().is_empty() || path.ends_with('/') {
                    return Err(bad("names a directory, not a file"));
                }
                return Ok(Self { dir, below: below.to_owned(), given: path.to_owned() });
            }
        }
        Err(bad(&format!("lies neither in {WORKSPACE_INSIDE} nor in {HOME_INSIDE}")))
    }

    /// The directory it lies in, as it is called inside.
    pub(crate) fn top(&self) -> &'static str {
        if self.dir == WORKSPACE_DIR { WORKSPACE_INSIDE } else { HOME_INSIDE }
    }

    /// The path as it was given.
    pub(crate) fn given(&self) -> &str {
        &self.given
    }

    fn error(&self, error: io::Error) -> Error {
        let reason = match Errno::from_io_error(&error) {
            Some(Errno::XDEV) => "leads out of the sandbox's own directories".to_owned(),
            Some(Errno::LOOP) => "goes round in links".to_owned(),
            Some(Errno::NOENT) => "there is no such file".to_owned(),
            Some(Errno::ISDIR) => "is a directory".to_owned(),
            Some(Errno::NOTDIR) => "a part of the path is not a directory".to_owned(),
            Some(Errno::NOSPC | Errno::DQUOT) => "the sandbox's disk is full".to_owned(),
            _ => error.to_string(),
        };
        Error::BadPath { path: self.given.clone(), reason }
    }
}

/// Writes a file whole, under another name first; directories on the way are made.
pub(crate) fn write(
    disk: &Path,
    path: &Inside,
    content: &[u8],
    mode: u32,
    owner_uid: Option<u32>,
) -> Result<(), Error> {
    let work = || -> io::Result<()> {
        let (parent, name) = parent_of(disk, path, owner_uid)?;
        let temporary = format!(".sunaba-{}.new", sunaba_types::SandboxId::generate());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&parent, &temporary, flags, Mode::RUSR | Mode::WUSR)?);
        let written = (|| {
            file.write_all(content)?;
            give(&file, owner_uid)?;
            fchmod(&file, Mode::from_raw_mode(mode & MODE_MAX))?;
            Ok(renameat(&parent, &temporary, &parent, name)?)
        })();
        if written.is_err() {
            let _ = unlinkat(&parent, &temporary, AtFlags::empty());
        }
        written
    };
    work().map_err(|error| path.error(error))
}

/// Reads the beginning of a file.
pub(crate) fn read(disk: &Path, path: &Inside, limit: usize) -> Result<Vec<u8>, Error> {
    let work = || -> io::Result<Vec<u8>> {
        let top = open_top(&disk.join(path.dir))?;
        // Not blocking: a pipe in place of the file must not hold anybody up.
        let file = beneath(&top, &path.below, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => return Err(io::Error::other("is not a regular file")),
        }
        let mut content = Vec::new();
        File::from(file).take(u64::try_from(limit).unwrap_or(u64::MAX)).read_to_end(&mut content)?;
        Ok(content)
    };
    work().map_err(|error| path.error(error))
}

fn open_top(dir: &Path) -> io::Result<OwnedFd> {
    Ok(openat(
        CWD,
        dir,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

fn beneath(top: impl AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut tries = 0;
    loop {
        match openat2(&top, path, flags | OFlags::CLOEXEC, Mode::empty(), RESOLVE) {
            Err(Errno::AGAIN | Errno::INTR) if tries < TRIES => tries += 1,
            other => return Ok(other?),
        }
    }
}

/// Opens the directory a file lies in, making what is missing.
fn parent_of<'a>(disk: &Path, path: &'a Inside, owner_uid: Option<u32>) -> io::Result<(OwnedFd, &'a OsStr)> {
    let name = path.below.file_name().ok_or(Errno::ISDIR)?;
    let top = open_top(&disk.join(path.dir))?;
    let above = path.below.parent().unwrap_or(Path::new(""));
    let mut so_far = PathBuf::new();
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut at = top.try_clone()?;
    for part in above.components() {
        // Always from the top: a link on the way may lead elsewhere in the sandbox, and not further.
        so_far.push(part);
        at = match beneath(&top, &so_far, flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match mkdirat(
                    &at,
                    part.as_os_str(),
                    Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH,
                ) {
                    Err(Errno::EXIST) | Ok(()) => {}
                    Err(errno) => return Err(errno.into()),
                }
                let made = beneath(&top, &so_far, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
                give(&made, owner_uid)?;
                made
            }
            other => other?,
        };
    }
    Ok((at, name))
}

fn give(file: impl AsFd, owner_uid: Option<u32>) -> io::Result<()> {
    if let Some(uid) = owner_uid {
        fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn places() -> tempfile::TempDir {
        let disk = tempfile::tempdir().unwrap();
        for name in [WORKSPACE_DIR, HOME_DIR] {
            std::fs::create_dir(disk.path().join(name)).unwrap();
        }
        disk
    }

    fn inside(path: &str) -> Inside {
        Inside::parse(path).unwrap()
    }

    #[test]
    fn only_files_in_the_two_places_are_named() {
        assert_eq!(inside("/workspace/a/b").dir, WORKSPACE_DIR);
        assert_eq!(inside("/home/agent/.x").dir, HOME_DIR);
        let refused = [
            "",
            "a",
            "/etc/passwd",
            "/workspace",
            "/workspace/",
            "/workspace/../x",
            "/workspacex/a",
            "/workspace/a\0b",
        ];
        for path in refused {
            assert!(matches!(Inside::parse(path), Err(Error::BadPath { .. })), "{path:?}");
        }
    }

    #[test]
    fn writes_whole_files_with_their_directories() {
        let disk = places();
        write(disk.path(), &inside("/workspace/a/b/c"), b"one", 0o6755, None).unwrap();
        write(disk.path(), &inside("/workspace/a/b/c"), b"two", 0o640, None).unwrap();
        let path = disk.path().join("workspace/a/b/c");
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
        assert_eq!(read(disk.path(), &inside("/workspace/a/b/c"), 2).unwrap(), b"tw");
    }

    #[test]
    fn links_lead_nowhere_outside() {
        let disk = places();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        let workspace = disk.path().join("workspace");
        symlink(outside.path(), workspace.join("out")).unwrap();
        symlink("../../..", workspace.join("up")).unwrap();
        symlink(outside.path().join("secret"), workspace.join("file")).unwrap();
        symlink("../home", workspace.join("sibling")).unwrap();
        for path in
            ["/workspace/out/secret", "/workspace/up/etc/passwd", "/workspace/file", "/workspace/sibling/x"]
        {
            let error = read(disk.path(), &inside(path), 10).unwrap_err().to_string();
            assert!(error.contains("leads out"), "{path}: {error}");
        }
        for path in ["/workspace/out/secret", "/workspace/out/new/deep", "/workspace/up/x"] {
            assert!(write(disk.path(), &inside(path), b"x", 0o644, None).is_err(), "{path}");
        }
        write(disk.path(), &inside("/workspace/file"), b"x", 0o644, None).unwrap();
        assert_eq!(
            std::fs::read(outside.path().join("secret")).unwrap(),
            b"s",
            "the link was replaced, not followed"
        );
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
        symlink("real", workspace.join("within")).unwrap();
        write(disk.path(), &inside("/workspace/real/a"), b"y", 0o644, None).unwrap();
        assert_eq!(
            read(disk.path(), &inside("/workspace/within/a"), 10).unwrap(),
            b"y",
            "links within are fine"
        );
    }

    #[test]
    fn a_pipe_in_place_of_a_file_holds_nobody_up() {
        let disk = places();
        nix::unistd::mkfifo(&disk.path().join("workspace/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = read(disk.path(), &inside("/workspace/pipe"), 10).unwrap_err().to_string();
        assert!(error.contains("regular"), "{error}");
        assert!(
            read(disk.path(), &inside("/workspace/none"), 10)
                .unwrap_err()
                .to_string()
                .contains("no such file")
        );
    }

    #[test]
    fn files_belong_to_the_sandboxs_user() {
        if !nix::unistd::geteuid().is_root() {
            println!("left out: only root can give files away");
            return;
        }
        let disk = places();
        write(disk.path(), &inside("/home/agent/d/f"), b"x", 0o600, Some(200_123)).unwrap();
        for path in ["home/d", "home/d/f"] {
            assert_eq!(std::fs::metadata(disk.path().join(path)).unwrap().uid(), 200_123, "{path}");
        }
    }
}
