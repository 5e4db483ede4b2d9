//! What bubblewrap is told.

use std::path::Path;

use anyhow::{Context as _, ensure};
use sunaba_types::shim::{HOME_INSIDE, Spec, WORKER_INSIDE, WORKSPACE_INSIDE};

/// Links (or directories) of the root that lead into `/usr`.
const SYSTEM_LINKS: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Parts of the host's `/etc` that hold no secret and that programs need.
const SHARED_ETC: &[&str] = &["/etc/alternatives", "/etc/ssl/certs"];
/// Size of `/tmp`, which is memory.
const TMP_MAX_BYTES: &str = "2147483648";
const PATH_INSIDE: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const HOST_NAME_MAX_CHARS: usize = 20;

/// A host path and where it appears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) source: String,
    pub(super) target: String,
    pub(super) writable: bool,
}

/// Everything of this sandbox's own that appears inside; the made `/etc` first, so that others can be laid over it.
pub(super) fn shown(spec: &Spec, etc: &Path) -> anyhow::Result<Vec<Shown>> {
    let etc = etc.to_str().context("the sandbox's directory is not UTF-8")?;
    let fixed = [(etc, "/etc"), (spec.worker_program.as_str(), WORKER_INSIDE)];
    let mut all: Vec<Shown> = fixed
        .into_iter()
        .map(|(source, target)| Shown {
            source: source.to_owned(),
            target: target.to_owned(),
            writable: false,
        })
        .collect();
    for bind in &spec.binds {
        ensure!(
            bind.source.starts_with('/') && bind.target.starts_with('/'),
            "a bind needs absolute paths: {} on {}",
            bind.source,
            bind.target
        );
        all.push(Shown { source: bind.source.clone(), target: bind.target.clone(), writable: bind.writable });
    }
    Ok(all)
}

/// A host name made of the id's end, which is its random part.
pub(super) fn host_name(sandbox_id: &str) -> String {
    let plain: Vec<char> = sandbox_id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    let tail: String = plain[plain.len().saturating_sub(HOST_NAME_MAX_CHARS - 4)..].iter().collect();
    format!("sbx-{}", tail.trim_matches('-'))
}

/// The options, which are handed over in a file.
pub(super) fn options(spec: &Spec, shown: &[Shown], info_fd: i32) -> Vec<String> {
    let mut options = Options::default();
    options.add(&["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    options.add(&["--uid", "1000", "--gid", "1000", "--hostname", &host_name(&spec.sandbox_id)]);
    options.add(&["--info-fd", &info_fd.to_string()]);
    options.system();
    for Shown { source, target, writable } in shown {
        options.add(&[if *writable { "--bind" } else { "--ro-bind" }, source, target]);
        if target == "/etc" {
            for path in SHARED_ETC.iter().filter(|path| Path::new(path).is_dir()) {
                options.add(&["--ro-bind", path, path]);
            }
        }
    }
    options.add(&["--clearenv"]);
    for (name, value) in
        [("HOME", HOME_INSIDE), ("PATH", PATH_INSIDE), ("LANG", "C.UTF-8"), ("USER", "agent")]
    {
        if !spec.env.contains_key(name) {
            options.add(&["--setenv", name, value]);
        }
    }
    for (name, value) in &spec.env {
        options.add(&["--setenv", name, value]);
    }
    options.add(&["--chdir", WORKSPACE_INSIDE]);
    options.0
}

/// What runs inside.
pub(super) fn command(spec: &Spec) -> Vec<String> {
    let mut command: Vec<String> = ["--", WORKER_INSIDE, "guest", "--"].map(str::to_owned).into();
    command.extend(spec.command.iter().cloned());
    command
}

#[derive(Debug, Default)]
struct Options(Vec<String>);

impl Options {
    fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(|word| (*word).to_owned()));
    }

    /// `/usr` and its links, and the file systems that every program expects.
    fn system(&mut self) {
        self.add(&["--ro-bind", "/usr", "/usr"]);
        for name in SYSTEM_LINKS {
            let path = format!("/{name}");
            match std::fs::read_link(&path) {
                Ok(target) => self.add(&["--symlink", &target.to_string_lossy(), &path]),
                Err(_) if Path::new(&path).is_dir() => self.add(&["--ro-bind", &path, &path]),
                Err(_) => {}
            }
        }
        self.add(&["--proc", "/proc", "--dev", "/dev"]);
        self.add(&["--perms", "1777", "--size", TMP_MAX_BYTES, "--tmpfs", "/tmp"]);
        self.add(&["--perms", "1777", "--dir", "/var/tmp"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_short_and_plain() {
        let name = host_name("sbx_0198f2a7c0de7000b1e2d3c4b5a69788");
        assert_eq!(name, "sbx-b1e2d3c4b5a69788");
        assert_eq!(host_name("a.B_"), "sbx-a-b");
    }

    #[test]
    fn a_relative_bind_is_refused() {
        let spec = Spec {
            sandbox_id: "s".into(),
            host_uid: None,
            binds: vec![sunaba_types::shim::Bind {
                source: "x".into(),
                target: "/x".into(),
                writable: false,
            }],
            worker_program: "/w".into(),
            env: std::collections::BTreeMap::new(),
            command: Vec::new(),
            limits: sunaba_types::shim::Limits::default(),
            layers: Vec::new(),
            root_fs: None,
            seccomp: true,
        };
        assert!(shown(&spec, Path::new("/e")).is_err());
    }
}
