//! The clone that a sandbox works in.
//!
//! It borrows the mirror's objects by the path they have *inside* the sandbox,
//! so on the host it is complete only together with the mirror. It is made
//! before the sandbox exists; afterwards its content is the sandbox's and is
//! never trusted again.

use std::fs;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

use crate::command::{Git, LONG, absolute};
use crate::mirror::Refs;
use crate::{Error, Mirror, ObjectFormat, Result, validate_branch_name};

/// What tools leave behind and nobody means to commit, where the repository itself says nothing about it.
const EXCLUDED: &str = "__pycache__/\n*.pyc\n.pytest_cache/\n.mypy_cache/\n";

/// What the clone looks like from inside.
#[derive(Debug, Clone, Copy)]
pub struct WorkspaceSpec<'a> {
    /// The branch to check out; it exists in the mirror.
    pub branch: &'a str,
    /// Where on it the work starts. The branch in the mirror may have moved since that was decided.
    pub commit: &'a str,
    /// Where the mirror's objects appear inside, for example `/run/sunaba-mirror/objects`.
    pub alternates_inside: &'a str,
    /// The address of `origin` inside. It carries no credential.
    pub remote_url_inside: &'a str,
    /// The user and group that everything is given to.
    pub owner: Option<(u32, u32)>,
    /// Paths that lie there besides and that nobody means to commit, from the top.
    pub left_out: &'a [String],
}

/// Makes a clone of the mirror in an empty or missing directory.
pub async fn prepare_workspace(mirror: &Mirror, dir: &Path, spec: WorkspaceSpec<'_>) -> Result<()> {
    validate_branch_name(spec.branch)?;
    let [branches, tags] = mirror.refs_below(["refs/heads/", "refs/tags/"]).await?;
    if !branches.contains_key(spec.branch) {
        return Err(Error::UnknownRef(spec.branch.to_owned()));
    }
    let commit = mirror.commit_id(spec.commit).await?;
    let dir = absolute(dir)?;
    make_empty(&dir)?;
    init(mirror, &dir, spec, &commit).await?;
    write_refs(&dir, (spec.branch, &commit), &branches, &tags)?;
    borrowed(mirror, &dir, "checkout")
        .args(["--quiet", "--force", spec.branch, "--"])
        .limit(LONG)
        .bytes()
        .await?;
    // Written last: the path exists only inside, and git on the host would complain about it.
    let alternates = dir.join(".git/objects/info/alternates");
    fs::create_dir_all(dir.join(".git/objects/info"))
        .and_then(|()| fs::write(&alternates, format!("{}\n", spec.alternates_inside)))
        .map_err(Error::io(format!("writing {}", alternates.display())))?;
    match spec.owner {
        Some((uid, gid)) => chown_tree(&dir, uid, gid).await,
        None => Ok(()),
    }
}

fn make_empty(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(Error::io(format!("making {}", dir.display())))?;
    let mut entries = fs::read_dir(dir).map_err(Error::io(format!("reading {}", dir.display())))?;
    if entries.next().is_some() { Err(Error::WorkspaceNotEmpty(dir.to_owned())) } else { Ok(()) }
}

async fn init(mirror: &Mirror, dir: &Path, spec: WorkspaceSpec<'_>, commit: &str) -> Result<()> {
    let format = ObjectFormat::of_id(commit);
    Git::at(dir, "init")
        .args(["--quiet", "--template=", &format!("--object-format={format}")])
        .arg(format!("--initial-branch={}", spec.branch))
        // The refs are written as files below.
        .env("GIT_DEFAULT_REF_FORMAT", "files")
        .bytes()
        .await?;
    let config = dir.join(".git/config");
    let mut settings = fs::read_to_string(&config).map_err(Error::io("reading the clone's settings"))?;
    settings.push_str(&clone_settings(spec));
    fs::write(&config, settings).map_err(Error::io("writing the clone's settings"))?;
    fs::create_dir_all(dir.join(".git/info"))
        .and_then(|()| fs::write(dir.join(".git/info/exclude"), excluded(spec.left_out)))
        .map_err(Error::io("writing what the clone leaves out"))?;
    let shallow = mirror.dir().join("shallow");
    if shallow.exists() {
        fs::copy(&shallow, dir.join(".git/shallow")).map_err(Error::io("copying the shallow list"))?;
    }
    Ok(())
}

/// The patterns of what is left out: each path as it is, whatever letters it holds.
fn excluded(paths: &[String]) -> String {
    let mut text = EXCLUDED.to_owned();
    for path in paths.iter().filter(|path| !path.contains(['\n', '\r'])) {
        text.push('/');
        for letter in path.chars() {
            if "\\*?[]!# ".contains(letter) {
                text.push('\\');
            }
            text.push(letter);
        }
        text.push('\n');
    }
    text
}

fn clone_settings(spec: WorkspaceSpec<'_>) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], "");
    format!(
        "[remote \"origin\"]\n\turl = \"{url}\"\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
         [branch \"{branch}\"]\n\tremote = origin\n\tmerge = \"refs/heads/{branch}\"\n\
         [push]\n\tdefault = current\n[gc]\n\tauto = 0\n",
        url = quoted(spec.remote_url_inside),
        branch = quoted(spec.branch),
    )
}

/// The branch, and what `origin` has as far as a fresh clone would know it.
fn write_refs(dir: &Path, (branch, commit): (&str, &str), branches: &Refs, tags: &Refs) -> Result<()> {
    let mut packed = format!("{commit} refs/heads/{branch}\n");
    for (name, at) in branches {
        packed.push_str(&format!("{at} refs/remotes/origin/{name}\n"));
    }
    for (name, at) in tags {
        packed.push_str(&format!("{at} refs/tags/{name}\n"));
    }
    fs::write(dir.join(".git/packed-refs"), packed).map_err(Error::io("writing the clone's refs"))
}

/// A call in the clone that finds the mirror's objects where they are on the host.
fn borrowed(mirror: &Mirror, dir: &Path, operation: &str) -> Git {
    Git::at(dir, operation).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", mirror.objects_dir())
}

/// Gives a directory and everything in it to a user, following no symbolic link.
pub async fn chown_tree(dir: &Path, uid: u32, gid: u32) -> Result<()> {
    let dir = dir.to_owned();
    let work = tokio::task::spawn_blocking(move || chown_below(&dir, uid, gid));
    work.await.map_err(|error| Error::io("giving files away")(std::io::Error::other(error)))?
}

fn chown_below(dir: &Path, uid: u32, gid: u32) -> Result<()> {
    let give = |path: &Path| {
        lchown(path, Some(uid), Some(gid))
            .map_err(Error::io(format!("giving {} to user {uid}", path.display())))
    };
    give(dir)?;
    let mut open: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        let reading = || Error::io(format!("reading {}", dir.display()));
        for entry in fs::read_dir(&dir).map_err(reading())? {
            let entry = entry.map_err(reading())?;
            give(&entry.path())?;
            if entry.file_type().map_err(reading())?.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(())
}
