//! What bubblewrap is told.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use sunaba_types::shim::{HOME_INSIDE, Spec, WORKER_INSIDE, WORKSPACE_INSIDE};

use super::root::Step;
use super::walls;

/// Links (or directories) of the root that lead into `/usr`.
const SYSTEM_LINKS: &[&str] = &["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Parts of the host's `/etc` that hold no secret and that programs need.
const SHARED_ETC: &[&str] = &["/etc/alternatives", "/etc/ssl/certs"];
const PATH_INSIDE: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const HOST_NAME_MAX_CHARS: usize = 20;

/// A host path and where it appears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) source: String,
    pub(super) target: String,
    pub(super) writable: bool,
    /// Trees laid under it, the lowest first.
    pub(super) layers: Vec<String>,
}

impl Shown {
    fn fixed(source: &str, target: &str) -> Self {
        Self { source: source.to_owned(), target: target.to_owned(), writable: false, layers: Vec::new() }
    }
}

/// Everything of this sandbox's own that appears inside; what was made for `/etc` first, so that others can be
/// laid over it.
pub(super) fn shown(spec: &Spec, etc: &[(String, &str)]) -> anyhow::Result<Vec<Shown>> {
    let mut all: Vec<Shown> = etc.iter().map(|(source, target)| Shown::fixed(source, target)).collect();
    all.push(Shown::fixed(&spec.worker_program, WORKER_INSIDE));
    for bind in &spec.binds {
        ensure!(
            bind.source.starts_with('/') && bind.target.starts_with('/'),
            "a bind needs absolute paths: {} on {}",
            bind.source,
            bind.target
        );
        all.push(Shown { writable: bind.writable, ..Shown::fixed(&bind.source, &bind.target) });
    }
    for layer in &spec.layers {
        let source = &layer.source;
        ensure!(source.starts_with('/') && Path::new(source).is_dir(), "the layer {source} is no directory");
        let under = all.iter_mut().find(|one| one.target == layer.target && one.writable);
        match under {
            Some(one) if [WORKSPACE_INSIDE, HOME_INSIDE].contains(&one.target.as_str()) => {
                one.layers.push(source.clone());
            }
            _ => bail!(
                "the layer {source} can lie under {WORKSPACE_INSIDE} or {HOME_INSIDE}, not {}",
                layer.target
            ),
        }
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

/// What the root file system is made of.
#[derive(Debug)]
pub(super) enum Root<'a> {
    /// The host's `/usr` and the links into it.
    System,
    /// A directory of its own, taken apart where something is mounted in it.
    Directory { path: &'a str, steps: &'a [Step] },
}

/// Open files by their numbers, which bubblewrap inherits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files {
    /// Where bubblewrap tells the sandbox's first process.
    pub(super) info: i32,
    /// The filter of system calls.
    pub(super) filter: Option<i32>,
}

/// The options, which are handed over in a file.
pub(super) fn options(spec: &Spec, root: &Root<'_>, shown: &[Shown], files: Files) -> Vec<String> {
    let mut options = Options::default();
    // User and cgroup namespaces by name: --unshare-all would go on without them.
    options.add(&["--unshare-all", "--unshare-user", "--unshare-cgroup", "--disable-userns"]);
    options.add(&["--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    options.add(&["--uid", "1000", "--gid", "1000", "--hostname", &host_name(&spec.sandbox_id)]);
    options.add(&["--info-fd", &files.info.to_string()]);
    if let Some(filter) = files.filter {
        options.add(&["--seccomp", &filter.to_string()]);
    }
    match root {
        Root::System => options.system(),
        Root::Directory { path, steps } => options.directory(path, steps),
    }
    walls::kernel_file_systems(&mut options, spec.limits.memory_bytes);
    for Shown { source, target, writable, .. } in shown {
        options.add(&[if *writable { "--bind" } else { "--ro-bind" }, source, target]);
        if target == "/etc" {
            for path in SHARED_ETC.iter().filter(|path| Path::new(path).is_dir()) {
                options.add(&["--ro-bind", path, path]);
            }
        }
    }
    // Every mount point is there: what is left of the root is memory that nobody counts.
    options.add(&["--remount-ro", "/"]);
    options.environment(spec);
    options.add(&["--chdir", WORKSPACE_INSIDE]);
    options.0
}

/// What runs inside.
pub(super) fn command(spec: &Spec) -> Vec<String> {
    let mut command: Vec<String> = ["--", WORKER_INSIDE, "guest", "--"].map(str::to_owned).into();
    command.extend(spec.command.iter().cloned());
    command
}

/// Options as they are gathered.
#[derive(Debug, Default)]
pub(super) struct Options(Vec<String>);

impl Options {
    pub(super) fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(|word| (*word).to_owned()));
    }

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
        self.add(&["--symlink", "/tmp", "/var/tmp"]);
    }

    fn directory(&mut self, root: &str, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Directory { path } => self.add(&["--dir", path]),
                Step::Link { path, target } => self.add(&["--symlink", target, path]),
                Step::Bind { path } => self.add(&["--ro-bind", &format!("{root}{path}"), path]),
            }
        }
    }

    fn environment(&mut self, spec: &Spec) {
        self.add(&["--clearenv"]);
        for (name, value) in
            [("HOME", HOME_INSIDE), ("PATH", PATH_INSIDE), ("LANG", "C.UTF-8"), ("USER", "agent")]
        {
            if !spec.env.contains_key(name) {
                self.add(&["--setenv", name, value]);
            }
        }
        for (name, value) in &spec.env {
            self.add(&["--setenv", name, value]);
        }
    }
}

/// The paths of made files, as text.
pub(super) fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).context("the sandbox's directory is not UTF-8")
}

#[cfg(test)]
mod tests {
    use sunaba_types::shim::{Bind, Layer};

    use super::*;
    use crate::launch::tests::spec;

    #[test]
    fn host_names_are_short_and_plain() {
        let name = host_name("sbx_0198f2a7c0de7000b1e2d3c4b5a69788");
        assert_eq!(name, "sbx-b1e2d3c4b5a69788");
        assert_eq!(host_name("a.B_"), "sbx-a-b");
    }

    fn bind(source: &str, target: &str, writable: bool) -> Bind {
        Bind { source: source.into(), target: target.into(), writable }
    }

    #[test]
    fn a_relative_bind_is_refused() {
        let spec = Spec { binds: vec![bind("x", "/x", false)], ..spec(None) };
        assert!(shown(&spec, &[]).is_err());
    }

    #[test]
    fn a_layer_lies_under_the_workspace_or_the_home_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let binds = vec![bind("/w", WORKSPACE_INSIDE, true), bind("/t", "/opt/tool", true)];
        let with = |source: &str, target: &str| {
            let layers = vec![Layer { source: source.into(), target: target.into() }];
            shown(&Spec { binds: binds.clone(), layers, ..spec(None) }, &[])
        };
        let source = dir.path().to_str().unwrap();
        let laid = with(source, WORKSPACE_INSIDE).unwrap();
        assert_eq!(laid.iter().find(|one| one.target == WORKSPACE_INSIDE).unwrap().layers, [source]);
        for (source, target) in [(source, "/opt/tool"), (source, HOME_INSIDE), ("/no/such", WORKSPACE_INSIDE)]
        {
            assert!(with(source, target).is_err(), "{source} under {target}");
        }
    }
}
