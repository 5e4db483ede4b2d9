//! Read-only trees under a directory that the sandbox writes to.
//!
//! With overlayfs nothing is copied before it is changed. Where that cannot be had,
//! the trees are copied into the directory at the start. Either way the trees are
//! never changed and what the directory holds already lies on top.
//!
//! Under root a layer's files must belong to root and be readable and writable for
//! all (`a+rwX`): the sandbox's own host user owns none of them, and what it changes
//! is a copy with the same owner and mode.

use std::fs::{self, DirBuilder, File, FileTimes};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use nix::mount::{MsFlags, mount};
use nix::unistd::Uid;

use super::arguments::Shown;
use super::stage::through;

/// Beside the directories it serves: overlayfs wants both on one file system.
const WORK_DIR: &str = "overlay-work";
/// Most that is copied where nothing can be mounted.
const COPY_MAX_ENTRIES: u64 = 500_000;
const COPY_MAX_BYTES: u64 = 8 << 30;

/// As whom overlayfs is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Notes about moved and removed directories are kept where only root can forge them.
    Root,
    /// In a user namespace: notes are kept in ordinary attributes, and a directory of a layer is
    /// moved by copying it (`rename` answers EXDEV, which tools know).
    User,
}

/// Makes the directory in which overlayfs prepares changes to this one.
pub(super) fn work_dir(upper: &Path) -> anyhow::Result<PathBuf> {
    let name = upper.file_name().context("a directory with layers has no name")?;
    let all = upper.with_file_name(WORK_DIR);
    let own = all.join(name);
    for path in [&all, &own] {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("make {}", path.display()));
            }
            _ => ensure!(path.symlink_metadata()?.is_dir(), "{} is no directory", path.display()),
        }
    }
    Ok(own)
}

/// Mounts them as one tree; `lower` has the lowest first.
pub(super) fn mount_overlay(
    lower: &[OwnedFd],
    upper: &OwnedFd,
    work: &OwnedFd,
    target: &str,
    kind: Kind,
) -> anyhow::Result<()> {
    // By open files: no path has to be quoted, and none of the host's shows in the list of mounts inside.
    let lower: Vec<_> = lower.iter().rev().map(through).collect();
    let notes = match kind {
        Kind::Root => "redirect_dir=on,metacopy=off,index=off",
        Kind::User => "userxattr,index=off",
    };
    let options =
        format!("lowerdir={},upperdir={},workdir={},{notes}", lower.join(":"), through(upper), through(work));
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("overlay"), target, Some("overlay"), flags, Some(options.as_str())).context("mount overlayfs")
}

/// Copies the layers of a directory into it, the topmost first: what is there already stays.
pub(super) fn copy_all(one: &Shown, owner: Option<Uid>) -> anyhow::Result<()> {
    let mut copying =
        Copying { owner: owner.map(Uid::as_raw), entries: COPY_MAX_ENTRIES, bytes: COPY_MAX_BYTES };
    for layer in one.layers.iter().rev() {
        copying
            .tree(Path::new(layer), Path::new(&one.source))
            .with_context(|| format!("copy the layer {layer}"))?;
    }
    Ok(())
}

/// What may still be copied, and for whom.
struct Copying {
    owner: Option<u32>,
    entries: u64,
    bytes: u64,
}

impl Copying {
    /// Without recursion: a tree may be deeper than a stack.
    fn tree(&mut self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let mut waiting = vec![(from.to_owned(), to.to_owned())];
        // Times of directories change while they are filled; they are set at the end.
        let mut made = Vec::new();
        while let Some((from, to)) = waiting.pop() {
            for entry in fs::read_dir(&from)? {
                let entry = entry?;
                let (source, target) = (entry.path(), to.join(entry.file_name()));
                self.entries = self.entries.checked_sub(1).context("it has too many entries")?;
                let metadata = entry.metadata()?;
                let there = target.symlink_metadata().ok();
                if metadata.is_dir() && there.as_ref().is_none_or(fs::Metadata::is_dir) {
                    if there.is_none() {
                        fs::create_dir(&target)?;
                        made.push((target.clone(), metadata));
                    }
                    waiting.push((source, target));
                } else if there.is_none() {
                    self.entry(&source, &target, &metadata)?;
                }
            }
        }
        for (path, metadata) in made.into_iter().rev() {
            self.finish(&path, &metadata)?;
        }
        Ok(())
    }

    fn entry(&mut self, source: &Path, target: &Path, metadata: &fs::Metadata) -> anyhow::Result<()> {
        if metadata.is_symlink() {
            symlink(fs::read_link(source)?, target)?;
            if let Some(owner) = self.owner {
                lchown(target, Some(owner), Some(owner))?;
            }
        } else if metadata.is_file() {
            self.bytes = self.bytes.checked_sub(metadata.len()).context("it is too large")?;
            // Shares the blocks on file systems that can.
            fs::copy(source, target)?;
            self.finish(target, metadata)?;
        }
        // Pipes, sockets and devices are no part of a layer.
        Ok(())
    }

    fn finish(&self, target: &Path, metadata: &fs::Metadata) -> anyhow::Result<()> {
        if let Some(owner) = self.owner {
            lchown(target, Some(owner), Some(owner))?;
        }
        // The owner must be able to go on with it.
        let needed = if metadata.is_dir() { 0o700 } else { 0o400 };
        fs::set_permissions(target, fs::Permissions::from_mode(metadata.mode() & 0o777 | needed))?;
        let times = FileTimes::new().set_modified(metadata.modified()?).set_accessed(metadata.accessed()?);
        Ok(File::open(target)?.set_times(times)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_what_is_not_there_with_modes_and_times() {
        let dir = tempfile::tempdir().unwrap();
        let (low, high, upper) = (dir.path().join("low"), dir.path().join("high"), dir.path().join("upper"));
        for (path, content) in
            [(low.join("d/both"), "low"), (low.join("d/low"), "low"), (high.join("d/both"), "high")]
        {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::create_dir(&upper).unwrap();
        fs::write(upper.join("own"), "own").unwrap();
        fs::write(low.join("own"), "low").unwrap();
        symlink("d/low", low.join("link")).unwrap();
        fs::set_permissions(low.join("d/low"), fs::Permissions::from_mode(0o755)).unwrap();
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        for path in ["d/low", "d"] {
            File::open(low.join(path)).unwrap().set_times(FileTimes::new().set_modified(old)).unwrap();
        }
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let layers = vec![text(&low), text(&high)];
        let one = Shown { source: text(&upper), target: "/workspace".to_owned(), writable: true, layers };
        copy_all(&one, None).unwrap();
        let read = |path: &str| fs::read_to_string(upper.join(path)).unwrap();
        assert_eq!((read("own"), read("d/both"), read("link")), ("own".into(), "high".into(), "low".into()));
        let copied = fs::metadata(upper.join("d/low")).unwrap();
        assert_eq!((copied.mode() & 0o777, copied.modified().unwrap()), (0o755, old));
        copy_all(&one, None).expect("copied again, it is the same");
        let mut small = Copying { owner: None, entries: 100, bytes: 2 };
        assert!(small.tree(&low, &dir.path().join("upper2")).is_err(), "no more than the bound");
    }
}
