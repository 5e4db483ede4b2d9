//! Which directories of the host a project may show to its sandboxes: its toolchains, its root file system.

use std::path::{Component, Path, PathBuf};

/// What belongs to the machine or changes under a reader's eyes; `/` holds all of it.
const NEVER: [&str; 6] = ["/", "/proc", "/sys", "/dev", "/run", "/etc"];

/// Why a path may not be shown; none if it may.
pub(super) async fn refusal(path: &str, protected: &[PathBuf]) -> Option<String> {
    let given = Path::new(path);
    if !given.is_absolute() || given.components().any(|part| part == Component::ParentDir) {
        return Some("must be an absolute path without `..`".to_owned());
    }
    // A link is judged by where it leads too; what is not there yet, by its name.
    let real = tokio::fs::canonicalize(given).await.unwrap_or_else(|_| given.to_owned());
    let mut shielded = Vec::new();
    for held in protected {
        shielded.push(held.clone());
        shielded.extend(tokio::fs::canonicalize(held).await);
    }
    let shown = [given, real.as_path()].into_iter().any(|place| shows(place, &shielded));
    shown.then(|| {
        format!("{path} cannot be shown to sandboxes: it is, holds or lies in a protected directory")
    })
}

fn shows(place: &Path, shielded: &[PathBuf]) -> bool {
    // Compared without `.` and doubled slashes.
    let place: PathBuf = place.components().collect();
    let machine =
        NEVER.iter().any(|never| place == Path::new(never) || (*never != "/" && place.starts_with(never)));
    machine || shielded.iter().any(|held| place.starts_with(held) || held.starts_with(&place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_machine_and_the_servers_own_data_are_not_toolchains() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        let (data, other) = (real.join("home/data"), real.join("opt/go"));
        for dir in [&data, &other] {
            std::fs::create_dir_all(dir).unwrap();
        }
        std::os::unix::fs::symlink(&data, real.join("opt/link")).unwrap();
        let protected = [data.clone()];
        let text = |path: &Path| path.display().to_string();
        let bad = [
            text(&data),
            text(&data.join("blobs")),
            text(&real.join("home")),
            text(&real),
            text(&real.join("opt/link")),
            text(&real.join("opt/../home")),
        ];
        let machine =
            ["/", "//", "/.", "/proc", "/proc/1", "/etc/ssl", "/sys", "/dev/shm", "/run/user", "relative"];
        for path in bad.iter().map(String::as_str).chain(machine) {
            assert!(refusal(path, &protected).await.is_some(), "{path}");
        }
        for path in
            [text(&other), text(&real.join("opt")), "/usr/local/go".to_owned(), "/etcetera".to_owned()]
        {
            let why = refusal(&path, &protected).await;
            // `opt` holds a link, not what the link leads to.
            assert_eq!(why, None, "{path}");
        }
    }
}
