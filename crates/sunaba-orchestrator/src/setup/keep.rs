//! Takes what a setup command made out of its sandbox, when nothing runs in that any more.
//!
//! The trees come from a stranger: they are looked through where they lie, with a bound on their depth, number
//! and size; links are never followed, set-id bits go, whatever is not a file, a directory or a link is removed.
//! Only then are they moved.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use sunaba_git::TreeFile;

/// Deeper than any installed package; a deeper tree is not taken.
const DEPTH_MAX: usize = 100;
const PATH_MAX_BYTES: usize = 3000;
const ENTRIES_MAX: usize = 2_000_000;
/// How many paths are kept apart in the clone; a setup that leaves more beside tracked files is not taken.
const TOPS_MAX: usize = 1000;

/// What was taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Its size in bytes.
    pub(super) bytes: u64,
    /// The paths in the workspace that are new, as high up as they are whole.
    pub(super) tops: Vec<String>,
}

/// Moves a sandbox's home and what is new in its workspace to `to/home` and `to/workspace`.
pub(super) fn keep(
    workspace: &Path,
    home: &Path,
    tracked: &[TreeFile],
    to: &Path,
    max_bytes: u64,
) -> io::Result<Kept> {
    let tops = new_in(workspace, tracked)?;
    let mut look = Look { bytes: 0, entries: 0, max_bytes, owner: rustix::process::geteuid().is_root() };
    for top in &tops {
        look.through(&workspace.join(top))?;
    }
    look.through(home)?;
    for name in ["home", "workspace"] {
        fs::create_dir_all(to.join(name))?;
        open_to_all(&to.join(name))?;
    }
    for entry in fs::read_dir(home)? {
        let entry = entry?;
        take(&entry.path(), &to.join("home").join(entry.file_name()))?;
    }
    for top in &tops {
        let target = to.join("workspace").join(top);
        make_parents(&to.join("workspace"), Path::new(top))?;
        take(&workspace.join(top), &target)?;
    }
    Ok(Kept { bytes: look.bytes, tops })
}

/// What lies in the workspace and is not of the commit, as high up as it is whole.
fn new_in(workspace: &Path, tracked: &[TreeFile]) -> io::Result<Vec<String>> {
    let files: HashSet<&str> = tracked.iter().map(|file| file.path.as_str()).collect();
    let folders: HashSet<&str> = tracked
        .iter()
        .flat_map(|file| file.path.match_indices('/').map(|(end, _)| &file.path[..end]))
        .collect();
    let mut found = Vec::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(workspace.join(&folder))? {
            let entry = entry?;
            // A name that is not text cannot be told to git either.
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let is_folder = entry.file_type()?.is_dir();
            if path == ".git" || files.contains(path.as_str()) {
                continue;
            }
            if is_folder && folders.contains(path.as_str()) {
                open.push(path);
                continue;
            }
            found.push(path);
            if found.len() > TOPS_MAX {
                return Err(io::Error::other("the setup command leaves new files all over the repository"));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A look through trees, before anything is moved.
struct Look {
    bytes: u64,
    entries: usize,
    max_bytes: u64,
    /// Whether files are given to root.
    owner: bool,
}

impl Look {
    fn through(&mut self, root: &Path) -> io::Result<()> {
        let mut open = vec![(root.to_owned(), 0)];
        while let Some((path, depth)) = open.pop() {
            if depth > DEPTH_MAX || path.as_os_str().len() > PATH_MAX_BYTES {
                return Err(io::Error::other("the setup command made directories that are too deep"));
            }
            if self.mend(&path)? {
                for entry in fs::read_dir(&path)? {
                    open.push((entry?.path(), depth + 1));
                }
            }
        }
        Ok(())
    }

    /// Puts one thing right; whether it is a directory.
    fn mend(&mut self, path: &Path) -> io::Result<bool> {
        let facts = fs::symlink_metadata(path)?;
        let kind = facts.file_type();
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(facts.blocks() * 512);
        if self.entries > ENTRIES_MAX || self.bytes > self.max_bytes {
            return Err(io::Error::other("the setup command made more than is kept"));
        }
        if kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device() {
            fs::remove_file(path)?;
            return Ok(false);
        }
        if self.owner {
            lchown(path, Some(0), Some(0))?;
        }
        if kind.is_symlink() {
            return Ok(false);
        }
        let runs = kind.is_dir() || facts.mode() & 0o111 != 0;
        let mode = if runs { 0o777 } else { 0o666 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        Ok(kind.is_dir())
    }
}

fn open_to_all(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777))
}

fn make_parents(root: &Path, path: &Path) -> io::Result<()> {
    let mut made = root.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        made.push(part);
        if !made.exists() {
            fs::create_dir(&made)?;
            open_to_all(&made)?;
        }
    }
    Ok(())
}

/// Moves, or copies from another file system (a sandbox's own disk).
fn take(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy(from, to),
        other => other,
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut open: Vec<(PathBuf, PathBuf)> = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = open.pop() {
        let kind = fs::symlink_metadata(&from)?.file_type();
        if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_dir() {
            fs::create_dir(&to)?;
            open_to_all(&to)?;
            for entry in fs::read_dir(&from)? {
                let entry = entry?;
                open.push((entry.path(), to.join(entry.file_name())));
            }
        } else {
            // Copies the mode too, which was put right before.
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(paths: &[&str]) -> Vec<TreeFile> {
        let file = |path: &&str| TreeFile { path: (*path).into(), blob: "1".into(), ordinary: true };
        paths.iter().map(file).collect()
    }

    #[test]
    fn only_what_is_new_is_taken_and_nothing_dangerous_stays() {
        let root = tempfile::tempdir().unwrap();
        let (workspace, home, to) = (root.path().join("w"), root.path().join("h"), root.path().join("layer"));
        for dir in ["w/.git", "w/node_modules/.bin", "w/sub/target", "h/.cargo"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        for file in ["w/.git/config", "w/main.js", "w/sub/a.rs", "w/sub/target/out", "h/.cargo/index"] {
            fs::write(root.path().join(file), "x").unwrap();
        }
        let tool = workspace.join("node_modules/.bin/tool");
        fs::write(&tool, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o6755)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", workspace.join("node_modules/link")).unwrap();
        let passwd_mode = fs::metadata("/etc/passwd").unwrap().mode();
        drop(std::os::unix::net::UnixListener::bind(home.join("socket")).unwrap());

        let kept = keep(&workspace, &home, &tracked(&["main.js", "sub/a.rs"]), &to, 1 << 30).unwrap();
        assert_eq!(kept.tops, ["node_modules", "sub/target"]);
        assert!(workspace.join("main.js").exists() && workspace.join(".git/config").exists());
        assert_eq!(fs::metadata(to.join("workspace/node_modules/.bin/tool")).unwrap().mode() & 0o7777, 0o777);
        assert_eq!(fs::metadata(to.join("workspace/sub/target/out")).unwrap().mode() & 0o7777, 0o666);
        assert_eq!(fs::metadata(to.join("workspace/sub")).unwrap().mode() & 0o777, 0o777);
        assert!(fs::symlink_metadata(to.join("workspace/node_modules/link")).unwrap().is_symlink());
        assert_eq!(fs::metadata("/etc/passwd").unwrap().mode(), passwd_mode, "no link is followed");
        assert!(to.join("home/.cargo/index").exists() && !to.join("home/socket").exists());
    }

    #[test]
    fn too_much_and_too_deep_are_refused_before_anything_is_moved() {
        let root = tempfile::tempdir().unwrap();
        let (workspace, home, to) = (root.path().join("w"), root.path().join("h"), root.path().join("layer"));
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir_all(&home).unwrap();
        fs::write(workspace.join("big"), vec![1; 64 * 1024]).unwrap();
        assert!(keep(&workspace, &home, &[], &to, 16 * 1024).is_err());
        assert!(workspace.join("big").exists() && !to.exists());
        fs::create_dir_all(home.join("d/".repeat(DEPTH_MAX + 2))).unwrap();
        assert!(keep(&workspace, &home, &[], &to, 1 << 30).is_err());
        assert!(!to.exists());
    }

    #[test]
    fn a_tree_on_another_disk_is_copied() {
        let from = tempfile::tempdir_in("/dev/shm").unwrap();
        let to = tempfile::tempdir().unwrap();
        fs::create_dir_all(from.path().join("a/b")).unwrap();
        fs::write(from.path().join("a/b/c"), "x").unwrap();
        std::os::unix::fs::symlink("b/c", from.path().join("a/link")).unwrap();
        take(&from.path().join("a"), &to.path().join("a")).unwrap();
        assert_eq!(fs::read(to.path().join("a/link")).unwrap(), b"x");
    }
}
