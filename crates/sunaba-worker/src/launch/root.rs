//! A directory as the root file system.
//!
//! It is never written to. The root is put together in memory from its entries, each
//! bound read-only; a directory in which something has to be mounted that it does not
//! hold is taken apart in the same way.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

/// What is not taken over: made anew inside, or not there at all.
const LEFT_OUT: &[&str] = &["/proc", "/dev", "/sys", "/tmp", "/run", "/var/tmp"];
/// More than this is no root that somebody prepared.
const STEPS_MAX: usize = 4096;

/// One thing of which the root is put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A directory that is taken apart.
    Directory { path: String },
    /// A symbolic link, made again.
    Link { path: String, target: String },
    /// Taken as it is.
    Bind { path: String },
}

/// Somewhere something will be mounted.
#[derive(Debug, Clone, Copy)]
pub(super) struct MountPoint<'a> {
    pub(super) path: &'a str,
    pub(super) is_directory: bool,
}

/// Refuses what cannot be a root, in words that say what is missing.
pub(super) fn check(root: &str) -> anyhow::Result<()> {
    ensure!(root.starts_with('/'), "root_fs {root} is not an absolute path");
    let directory = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .with_context(|| format!("root_fs {root} is not a directory that can be opened"))?;
    let shell = openat2(
        &directory,
        "bin/sh",
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    );
    ensure!(shell.is_ok(), "root_fs {root} has no /bin/sh: it must hold a whole system, not only some files");
    Ok(())
}

/// Plans the root for these mount points.
pub(super) fn plan(root: &Path, mounts: &[MountPoint<'_>]) -> anyhow::Result<Vec<Step>> {
    let absent: Vec<&str> =
        mounts.iter().filter(|mount| !is_there(root, mount)).map(|mount| mount.path).collect();
    let mut plan = Plan { root, mounts, absent: &absent, steps: Vec::new() };
    plan.take_apart("")?;
    if !mounts.iter().any(|mount| mount.path == "/var/tmp") {
        plan.steps.push(Step::Link { path: "/var/tmp".to_owned(), target: "/tmp".to_owned() });
    }
    Ok(plan.steps)
}

struct Plan<'a> {
    root: &'a Path,
    mounts: &'a [MountPoint<'a>],
    absent: &'a [&'a str],
    steps: Vec<Step>,
}

impl Plan<'_> {
    fn take_apart(&mut self, directory: &str) -> anyhow::Result<()> {
        let on_host = self.root.join(directory.trim_start_matches('/'));
        let read = || format!("read {}", on_host.display());
        for entry in fs::read_dir(&on_host).with_context(read)? {
            let entry = entry.with_context(read)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                bail!("{} in the root file system is not UTF-8", entry.path().display());
            };
            let path = format!("{directory}/{name}");
            if LEFT_OUT.contains(&path.as_str()) || self.mounts.iter().any(|mount| mount.path == path) {
                continue;
            }
            ensure!(
                self.steps.len() < STEPS_MAX,
                "the root file system has too many entries around its mounts"
            );
            let kind = entry.file_type().with_context(read)?;
            if kind.is_symlink() {
                let target = fs::read_link(entry.path()).with_context(read)?;
                let target =
                    target.to_str().context("a link in the root file system is not UTF-8")?.to_owned();
                self.steps.push(Step::Link { path, target });
            } else if kind.is_dir() && self.something_is_absent_in(&path) {
                self.steps.push(Step::Directory { path: path.clone() });
                self.take_apart(&path)?;
            } else if kind.is_dir() || kind.is_file() {
                self.steps.push(Step::Bind { path });
            }
        }
        Ok(())
    }

    fn something_is_absent_in(&self, directory: &str) -> bool {
        let below = |path: &str| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
        self.absent.iter().any(|path| below(path)) || below("/var/tmp")
    }
}

/// Whether the root holds what can be mounted on, without any link on the way.
fn is_there(root: &Path, mount: &MountPoint<'_>) -> bool {
    let mut at = root.to_owned();
    for part in mount.path.split('/').filter(|part| !part.is_empty()) {
        at.push(part);
        if at.is_symlink() {
            return false;
        }
    }
    if mount.is_directory { at.is_dir() } else { at.is_file() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lacks_a_mount_point_is_taken_apart() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for path in ["usr/bin", "etc/deep", "home/other", "opt/tool", "proc", "var/lib", "var/tmp", "run/x"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for path in ["etc/passwd", "etc/hosts", "top"] {
            fs::write(root.join(path), "").unwrap();
        }
        std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
        let file = |path| MountPoint { path, is_directory: false };
        let directory = |path| MountPoint { path, is_directory: true };
        let mounts =
            [file("/etc/passwd"), file("/etc/hosts"), directory("/home/agent"), file("/opt/sunaba/worker")];
        let mut steps = plan(root, &mounts).unwrap();
        steps.sort_by_key(|step| format!("{step:?}"));
        let bind = |path: &str| Step::Bind { path: path.to_owned() };
        let taken_apart = |path: &str| Step::Directory { path: path.to_owned() };
        let link = |path: &str, target: &str| Step::Link { path: path.to_owned(), target: target.to_owned() };
        let mut expected = vec![
            bind("/usr"),
            bind("/etc"),
            bind("/top"),
            bind("/home/other"),
            bind("/opt/tool"),
            bind("/var/lib"),
            taken_apart("/home"),
            taken_apart("/opt"),
            taken_apart("/var"),
            link("/bin", "usr/bin"),
            link("/var/tmp", "/tmp"),
        ];
        expected.sort_by_key(|step| format!("{step:?}"));
        assert_eq!(steps, expected);
        let with_more = [file("/etc/passwd"), file("/etc/resolv.conf")];
        let steps = plan(root, &with_more).unwrap();
        assert!(steps.contains(&bind("/etc/deep")), "{steps:?}");
        assert!(!steps.contains(&bind("/etc/passwd")), "something else is mounted there: {steps:?}");
    }

    #[test]
    fn what_cannot_be_a_root_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        assert!(check(root).unwrap_err().to_string().contains("no /bin/sh"));
        assert!(check("relative").unwrap_err().to_string().contains("absolute"));
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(check(&format!("{root}/file")).unwrap_err().to_string().contains("not a directory"));
        fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
        fs::write(dir.path().join("usr/bin/sh"), "").unwrap();
        std::os::unix::fs::symlink("/usr/bin", dir.path().join("bin")).unwrap();
        check(root).expect("an absolute link is followed in the root, not on the host");
        fs::remove_file(dir.path().join("usr/bin/sh")).unwrap();
        assert!(check(root).is_err(), "the host's own shell does not count");
    }
}
