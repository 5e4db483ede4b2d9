//! Makes directories reachable for an unprivileged user.
//!
//! A sandbox's directory usually lies below one that only root may enter. In a
//! mount namespace of its own this process binds each needed path below a small
//! private file system that anybody may enter. Nobody else sees those mounts.

use std::fs::{DirBuilder, File};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, fstat};

use super::arguments::Shown;

/// Empty on most hosts, and on every host there; what lies below it stays reachable through open files.
const STAGES: &[&str] = &["/mnt", "/media", "/srv", "/tmp"];
const NOTHING: Option<&str> = None;

/// Binds each source below the stage and makes it the new source.
pub(super) fn make_reachable(shown: &mut [Shown]) -> anyhow::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("leave the host's mount namespace")?;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)
        .context("keep mounts to ourselves")?;
    // Opened before the stage is made, which may hide what lies below it, and in the new
    // namespace, because nothing can be bound out of another.
    let opened = shown
        .iter()
        .map(|one| {
            open(one.source.as_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
                .with_context(|| format!("open {}", one.source))
        })
        .collect::<anyhow::Result<Vec<OwnedFd>>>()?;
    let stage = make_stage()?;
    for (number, (one, source)) in shown.iter_mut().zip(&opened).enumerate() {
        let target = format!("{stage}/{number}");
        make_mount_point(Path::new(&target), source).with_context(|| format!("make {target}"))?;
        let through = format!("/proc/self/fd/{}", source.as_raw_fd());
        mount(Some(through.as_str()), target.as_str(), NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING)
            .with_context(|| format!("bind {}", one.source))?;
        one.source = target;
    }
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
