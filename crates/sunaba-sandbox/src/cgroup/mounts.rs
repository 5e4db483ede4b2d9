//! Which hierarchies are mounted where, and where this process is in them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::Version;

/// Where the kernel tells about mounts and groups.
#[derive(Debug, Clone)]
pub struct View {
    /// Usually `/proc/self`.
    pub own_proc: PathBuf,
}

impl Default for View {
    fn default() -> Self {
        Self { own_proc: PathBuf::from("/proc/self") }
    }
}

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mounted {
    pub(super) version: Version,
    /// Version 1: the controllers it holds, or `name=systemd`.
    pub(super) names: Vec<String>,
    pub(super) point: PathBuf,
    /// This process's own group in it, where the mount shows it.
    pub(super) own: Option<PathBuf>,
}

impl View {
    /// Every hierarchy that this process can see.
    pub(super) fn mounted(&self) -> io::Result<Vec<Mounted>> {
        let mounts = fs::read_to_string(self.own_proc.join("mountinfo"))?;
        let groups = fs::read_to_string(self.own_proc.join("cgroup"))?;
        let mut found: Vec<Mounted> = Vec::new();
        for mounted in mounts.lines().filter_map(|line| parse(line, &groups)) {
            // The same hierarchy may be mounted twice; what lies on top hides what was there before.
            found.retain(|other| other.point != mounted.point);
            let known = |other: &Mounted| other.version == mounted.version && other.names == mounted.names;
            if !found.iter().any(known) {
                found.push(mounted);
            }
        }
        // One that something else was mounted over is not there to be written to.
        let last_word = |point: &Path| {
            mounts.lines().filter_map(fields).rfind(|fields| point.starts_with(&fields.point)).map(|f| f.kind)
        };
        found.retain(|mounted| last_word(&mounted.point).is_some_and(|kind| kind.starts_with("cgroup")));
        Ok(found)
    }
}

struct Fields<'a> {
    root: PathBuf,
    point: PathBuf,
    kind: &'a str,
    options: &'a str,
}

fn fields(line: &str) -> Option<Fields<'_>> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, point) = (unescape(before.next()?), unescape(before.next()?));
    let mut after = after.split(' ');
    let kind = after.next()?;
    Some(Fields { root, point, kind, options: after.nth(1)? })
}

fn parse(line: &str, groups: &str) -> Option<Mounted> {
    let Fields { root, point, kind, options } = fields(line)?;
    let (version, names): (Version, Vec<String>) = match kind {
        "cgroup2" => (Version::V2, Vec::new()),
        "cgroup" => {
            (Version::V1, options.split(',').filter(|name| is_name(name)).map(str::to_owned).collect())
        }
        _ => return None,
    };
    let own = own_group(groups, version, &names)
        .and_then(|own| own.strip_prefix(&root).ok().map(|below| point.join(below)))
        .filter(|own| !own.components().any(|part| part == std::path::Component::ParentDir));
    Some(Mounted { version, names, point, own })
}

/// What of a mount's options names the hierarchy.
fn is_name(option: &str) -> bool {
    const FLAGS: &[&str] = &["rw", "ro", "xattr", "clone_children", "noprefix", "cpuset_v2_mode"];
    !FLAGS.contains(&option) && !option.starts_with("release_agent=")
}

fn own_group(groups: &str, version: Version, names: &[String]) -> Option<PathBuf> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let same = match version {
            Version::V2 => controllers.is_empty(),
            Version::V1 => {
                !controllers.is_empty() && controllers.split(',').all(|one| names.iter().any(|n| n == one))
            }
        };
        same.then(|| PathBuf::from(path))
    })
}

/// The kernel writes spaces and the like as octal numbers.
fn unescape(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = (bytes[at] == b'\\')
            .then(|| bytes.get(at + 1..at + 4))
            .flatten()
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(octal.unwrap_or(bytes[at]));
        at += if octal.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(mountinfo: &str, cgroup: &str) -> Vec<Mounted> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("mountinfo"), mountinfo).unwrap();
        fs::write(dir.path().join("cgroup"), cgroup).unwrap();
        View { own_proc: dir.path().to_owned() }.mounted().unwrap()
    }

    #[test]
    fn finds_both_versions_on_a_hybrid_host() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
                      35 31 0:32 / /sys/fs/cgroup/mem\\040ory rw shared:3 - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = view(mounts, "4:memory:/a/b\n2:cpu,cpuacct:/\n0::/user.slice\n");
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].names, ["cpu", "cpuacct"]);
        assert_eq!(found[1].own.as_deref(), Some(Path::new("/sys/fs/cgroup/mem ory/a/b")));
        assert_eq!(
            (found[2].version, found[2].own.as_deref()),
            (Version::V2, Some(Path::new("/sys/fs/cgroup/unified/user.slice")))
        );
    }

    #[test]
    fn a_container_sees_its_group_as_the_root_of_the_mount() {
        let mounts = "41 31 0:38 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(view(mounts, "0::/docker/abc/x\n")[0].own.as_deref(), Some(Path::new("/sys/fs/cgroup/x")));
        assert_eq!(view(mounts, "0::/elsewhere\n")[0].own, None, "the mount does not show it");
        assert_eq!(view("41 31 0:38 / /c rw - cgroup2 c rw\n", "0::/../other\n")[0].own, None);
    }

    #[test]
    fn what_is_mounted_over_is_not_there() {
        let mounts = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                      50 41 0:50 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n";
        assert_eq!(view(mounts, "0::/\n"), Vec::new());
    }
}
