//! The programs that a sandbox on this host would find, seen from outside: nothing is run.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sunaba_types::agents::Origin;
use sunaba_types::shim::PATH_INSIDE;

use super::python;

/// What of the host every sandbox sees.
const SEEN: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
/// How much of a script is read to know what runs it.
const FIRST_LINE_MAX_BYTES: usize = 256;

/// A program that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundProgram {
    /// Its file.
    pub path: PathBuf,
    /// Its version, when it comes from the expected package.
    pub version: Option<String>,
    /// Why it would not run in a sandbox.
    pub problem: Option<String>,
}

/// Looks for a program that comes from this package. One of Python's is there only with its package, because its program
/// is Python itself.
pub fn find_inside(program: &str, package: &str, origin: Origin) -> Option<FoundProgram> {
    let path: Vec<PathBuf> = PATH_INSIDE.split(':').map(PathBuf::from).collect();
    Inside { path: &path, seen: &SEEN.map(PathBuf::from) }.find(program, package, origin)
}

struct Inside<'a> {
    path: &'a [PathBuf],
    seen: &'a [PathBuf],
}

impl Inside<'_> {
    fn find(&self, program: &str, package: &str, origin: Origin) -> Option<FoundProgram> {
        let file = self.path.iter().map(|dir| dir.join(program)).find(|file| file.is_file())?;
        let real = file.canonicalize().ok()?;
        let version = match origin {
            Origin::PyPi => Some(python::version_of(&file, package)?),
            Origin::Npm | Origin::Unpackaged => version_of(&real, package),
        };
        let problem = self.problem(&file, &real);
        Some(FoundProgram { path: file, version, problem })
    }

    fn problem(&self, file: &Path, real: &Path) -> Option<String> {
        if !self.seen.iter().any(|seen| real.starts_with(seen)) {
            let (file, real) = (file.display(), real.display());
            return Some(format!("{file} leads to {real}, which sandboxes do not see"));
        }
        let mode = real.metadata().ok()?.permissions().mode();
        if mode & 0o001 == 0 {
            return Some(format!("{} may not be run by others", real.display()));
        }
        let wanted = interpreter(real)?;
        let is_there = match wanted.strip_prefix('/') {
            Some(_) => Path::new(&wanted).is_file(),
            None => self.path.iter().any(|dir| dir.join(&wanted).is_file()),
        };
        (!is_there).then(|| format!("it needs {wanted}, which sandboxes do not find"))
    }
}

/// What runs a script; a name that is looked for, or a path.
fn interpreter(file: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut beginning = Vec::new();
    std::fs::File::open(file).ok()?.take(FIRST_LINE_MAX_BYTES as u64).read_to_end(&mut beginning).ok()?;
    let line = String::from_utf8_lossy(beginning.strip_prefix(b"#!")?).lines().next()?.to_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if !first.ends_with("/env") {
        return Some(first.to_owned());
    }
    words.find(|word| !word.starts_with('-')).map(str::to_owned)
}

#[derive(Deserialize)]
struct Manifest {
    name: String,
    version: String,
}

fn version_of(file: &Path, package: &str) -> Option<String> {
    file.ancestors().skip(1).find_map(|dir| {
        let manifest = std::fs::read(dir.join("package.json")).ok()?;
        let manifest: Manifest = serde_json::from_slice(&manifest).ok()?;
        (manifest.name == package).then_some(manifest.version)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A package as npm lays it: a link on the path into the package's directory.
    fn install(root: &Path, script: &str, mode: u32) {
        let package = root.join("usr/lib/node_modules/@x/agent");
        fs::create_dir_all(package.join("dist")).unwrap();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(package.join("package.json"), r#"{"name": "@x/agent", "version": "1.2.3"}"#).unwrap();
        fs::write(package.join("dist/index.js"), script).unwrap();
        fs::set_permissions(package.join("dist/index.js"), fs::Permissions::from_mode(mode)).unwrap();
        symlink("../lib/node_modules/@x/agent/dist/index.js", root.join("usr/bin/agent")).unwrap();
    }

    fn find(root: &Path, package: &str) -> Option<FoundProgram> {
        let root = root.canonicalize().unwrap();
        Inside { path: &[root.join("usr/bin")], seen: &[root.join("usr")] }.find(
            "agent",
            package,
            Origin::Npm,
        )
    }

    #[test]
    fn a_program_is_known_by_its_package_and_needs_what_runs_it() {
        let root = TempDir::new().unwrap();
        assert_eq!(find(root.path(), "@x/agent"), None);
        install(root.path(), "#!/usr/bin/env -S node --flag\n", 0o755);
        let found = find(root.path(), "@x/agent").unwrap();
        assert_eq!(found.version.as_deref(), Some("1.2.3"));
        assert_eq!(found.problem.as_deref(), Some("it needs node, which sandboxes do not find"));
        fs::write(root.path().join("usr/bin/node"), "").unwrap();
        assert_eq!(find(root.path(), "@x/agent").unwrap().problem, None);
        assert_eq!(find(root.path(), "@y/agent").unwrap().version, None, "another package's version");
    }

    #[test]
    fn what_sandboxes_do_not_see_or_may_not_run_is_said() {
        let root = TempDir::new().unwrap();
        install(root.path(), "\x7fELF", 0o700);
        let found = find(root.path(), "@x/agent").unwrap();
        assert!(found.problem.unwrap().ends_with("may not be run by others"));
        let home = TempDir::new().unwrap();
        fs::write(home.path().join("agent"), "\x7fELF").unwrap();
        fs::remove_file(root.path().join("usr/bin/agent")).unwrap();
        symlink(home.path().join("agent"), root.path().join("usr/bin/agent")).unwrap();
        let found = find(root.path(), "@x/agent").unwrap();
        assert!(found.problem.unwrap().ends_with("which sandboxes do not see"));
    }

    #[test]
    fn one_of_python_s_is_there_with_its_package_only() {
        let root = TempDir::new().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::write(root.join("usr/bin/python3"), "\x7fELF").unwrap();
        fs::set_permissions(root.join("usr/bin/python3"), fs::Permissions::from_mode(0o755)).unwrap();
        let find = || {
            Inside { path: &[root.join("usr/bin")], seen: &[root.join("usr")] }.find(
                "python3",
                "an-agent",
                Origin::PyPi,
            )
        };
        assert_eq!(find(), None, "Python alone is no agent");
        let package = root.join("usr/lib/python3.12/site-packages/an_agent-1.2.3.dist-info");
        fs::create_dir_all(package).unwrap();
        let found = find().unwrap();
        assert_eq!((found.version.as_deref(), found.problem), (Some("1.2.3"), None));
    }
}
