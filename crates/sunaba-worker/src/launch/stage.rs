//! Mounts that only this process and what it becomes can see.
//!
//! A sandbox's directory usually lies below one that only root may enter. In a
//! mount namespace of its own this process binds each needed path below a small
//! private file system that anybody may enter, and lays layers under those that
//! have some. Nobody else sees those mounts.

use std::fs::{DirBuilder, File};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{Uid, getegid, geteuid};

use super::arguments::Shown;
use super::layers::{self, Kind};

/// Empty on most hosts, and on every host there; what lies below it stays reachable through open files.
const STAGES: &[&str] = &["/mnt", "/media", "/srv", "/tmp"];
const NOTHING: Option<&str> = None;

/// As whom the mounts are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    /// Root, for this sandbox's own host user.
    Root { owner: Uid },
    /// An ordinary user, who needs a user namespace for it.
    User,
}

/// Leaves the host's mount namespace.
pub(super) fn enter(maker: Maker) -> anyhow::Result<()> {
    match maker {
        Maker::Root { .. } => {
            unshare(CloneFlags::CLONE_NEWNS).context("leave the host's mount namespace")?;
        }
        Maker::User => enter_user_namespace()?,
    }
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)
        .context("keep mounts to ourselves")
}

/// Stays the same user by name; the rights to mount are lost again when bubblewrap is started.
fn enter_user_namespace() -> anyhow::Result<()> {
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).context("make a user namespace")?;
    std::fs::write("/proc/self/setgroups", "deny").context("give up changing groups")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).context("stay the same user")?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).context("stay in the same group")
}

/// Binds each source below the stage and makes it the new source; the same for the root, if there is one.
pub(super) fn make_reachable(
    shown: &mut [Shown],
    root: Option<&mut String>,
    maker: Maker,
) -> anyhow::Result<()> {
    // Opened before the stage is made, which may hide what lies below it, and in the new
    // namespace, because nothing can be bound out of another.
    let opened = shown.iter().map(Opened::new).collect::<anyhow::Result<Vec<_>>>()?;
    let root_opened = root.as_deref().map(|path| hold(path)).transpose()?;
    let stage = make_stage()?;
    for (number, (one, files)) in shown.iter_mut().zip(&opened).enumerate() {
        let target = format!("{stage}/{number}");
        make_mount_point(Path::new(&target), &files.source).with_context(|| format!("make {target}"))?;
        files.lay(one, &target, maker)?;
        one.source = target;
    }
    if let (Some(path), Some(source)) = (root, root_opened) {
        let target = format!("{stage}/root");
        make_mount_point(Path::new(&target), &source)?;
        bind(&source, &target).with_context(|| format!("bind {path}"))?;
        *path = target;
    }
    Ok(())
}

/// What is held on to of one shown path.
struct Opened {
    source: OwnedFd,
    /// Its layers, the lowest first, and where overlayfs works; why not, if it cannot be had.
    layered: Option<anyhow::Result<(Vec<OwnedFd>, OwnedFd)>>,
}

impl Opened {
    fn new(one: &Shown) -> anyhow::Result<Self> {
        let source = hold(&one.source)?;
        let layered = (!one.layers.is_empty()).then(|| {
            let lower = one.layers.iter().map(|path| hold(path)).collect::<anyhow::Result<Vec<_>>>()?;
            let work = layers::work_dir(Path::new(&one.source))?;
            Ok((lower, hold(work.to_str().context("the sandbox's directory is not UTF-8")?)?))
        });
        Ok(Self { source, layered })
    }

    fn lay(&self, one: &Shown, target: &str, maker: Maker) -> anyhow::Result<()> {
        let kind = match maker {
            Maker::Root { .. } => Kind::Root,
            Maker::User => Kind::User,
        };
        let mounted = match &self.layered {
            None => None,
            Some(Ok((lower, work))) => Some(layers::mount_overlay(lower, &self.source, work, target, kind)),
            Some(Err(error)) => Some(Err(anyhow::anyhow!("{error:#}"))),
        };
        match mounted {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => {
                tracing::warn!("layers are copied, because they cannot be mounted: {error:#}");
                let owner = match maker {
                    Maker::Root { owner } => Some(owner),
                    Maker::User => None,
                };
                layers::copy_all(one, owner)?;
            }
            None => {}
        }
        bind(&self.source, target).with_context(|| format!("bind {}", one.source))
    }
}

fn hold(path: &str) -> anyhow::Result<OwnedFd> {
    open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).with_context(|| format!("open {path}"))
}

/// A path by which an open file can be named in a mount.
pub(super) fn through(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn bind(source: &OwnedFd, target: &str) -> anyhow::Result<()> {
    mount(Some(through(source).as_str()), target, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING)?;
    Ok(())
}

fn make_stage() -> anyhow::Result<&'static str> {
    let Some(stage) = STAGES.iter().find(|path| Path::new(path).is_dir()) else {
        bail!("none of {STAGES:?} is a directory");
    };
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), *stage, Some("tmpfs"), flags, Some("mode=0755,size=64k"))
        .with_context(|| format!("mount over {stage}"))?;
    Ok(stage)
}

fn make_mount_point(target: &Path, source: &OwnedFd) -> anyhow::Result<()> {
    let kind = SFlag::from_bits_truncate(fstat(source)?.st_mode) & SFlag::S_IFMT;
    if kind == SFlag::S_IFDIR {
        DirBuilder::new().mode(0o755).create(target)?;
    } else {
        File::create_new(target)?;
    }
    Ok(())
}
