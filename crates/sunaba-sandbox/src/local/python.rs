//! A package of Python's, seen from outside: nothing is run.

use std::path::{Path, PathBuf};

/// The version of a package that this interpreter would find; the path is the one by which it is started, because that
/// decides whose packages it uses.
pub(super) fn version_of(interpreter: &Path, package: &str) -> Option<String> {
    let prefix = interpreter.parent()?.parent()?;
    // Where a distribution keeps its own packages apart from those that are added.
    let prefixes = [prefix.to_owned(), prefix.join("local")];
    // Names of packages and of their directories differ in this.
    let name = package.replace('-', "_");
    let mut all = prefixes.iter().flat_map(|prefix| packages(&prefix.join("lib")));
    all.find_map(|dir| found(&dir, &name))
}

/// The directories of packages for any version of Python 3.
fn packages(lib: &Path) -> Vec<PathBuf> {
    let named = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("python3");
    let versions = std::fs::read_dir(lib).into_iter().flatten().filter_map(Result::ok).filter(named);
    versions
        .flat_map(|entry| ["site-packages", "dist-packages"].map(|name| entry.path().join(name)))
        .collect()
}

/// As the name of the directory beside the package has it: `NAME-VERSION.dist-info`.
fn found(dir: &Path, name: &str) -> Option<String> {
    std::fs::read_dir(dir).ok()?.filter_map(Result::ok).find_map(|entry| {
        let file = entry.file_name().into_string().ok()?;
        let (package, version) = file.strip_suffix(".dist-info")?.split_once('-')?;
        package.eq_ignore_ascii_case(name).then(|| version.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_package_is_found_beside_its_interpreter_and_where_others_add_it() {
        let root = TempDir::new().unwrap();
        let interpreter = root.path().join("usr/bin/python3");
        assert_eq!(version_of(&interpreter, "an-agent"), None);
        for (place, package) in [
            ("usr/lib/python3.12/site-packages", "an_agent_of_others-2.0.dist-info"),
            ("usr/lib/python3.12/site-packages", "an_agent"),
            ("usr/local/lib/python3.12/dist-packages", "An_Agent-1.2.3.dist-info"),
        ] {
            fs::create_dir_all(root.path().join(place).join(package)).unwrap();
        }
        assert_eq!(version_of(&interpreter, "an-agent").as_deref(), Some("1.2.3"));
        assert_eq!(version_of(&root.path().join("opt/bin/python3"), "an-agent"), None);
    }
}
