//! A project's bare mirror: what sandboxes read from and push to.
//!
//! ```text
//! refs/remotes/source/<b>   what the source has, as of the last fetch
//! refs/heads/<b>            what sandboxes see: the source's branches and the sandboxes' own
//! refs/owned/<b>            marks a branch as made for a sandbox, at the commit it started from
//! refs/sunaba/<sandbox>     a sandbox's steps
//! ```
//! A fetch never moves an owned branch. Nothing is ever collected here: clones
//! borrow these objects, and one that is pruned breaks them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::command::{Git, absolute};
use crate::follow::local_path;
use crate::names::{candidates, clash};
use crate::{Credential, Error, ObjectFormat, Repo, Result, stale, validate_branch_name};

/// The most that [`Mirror::diff`] gives.
pub const DIFF_MAX_BYTES: u64 = 4 * 1024 * 1024;
const LOG_MAX_COMMITS: usize = 500;

const SETTINGS: &[(&str, &str)] = &[
    ("gc.auto", "0"),
    ("gc.pruneExpire", "never"),
    ("maintenance.auto", "false"),
    ("receive.autogc", "false"),
    ("receive.fsckObjects", "true"),
    ("receive.denyDeletes", "true"),
    ("receive.maxInputSize", "1g"),
    ("core.logAllRefUpdates", "always"),
    ("transfer.hideRefs", "refs/remotes"),
];

/// Names of refs and where each is.
pub(crate) type Refs = BTreeMap<String, String>;

/// One commit of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub id: String,
    /// Who wrote it.
    pub author: String,
    /// When, in seconds since 1970.
    pub at: i64,
    /// Its first line.
    pub subject: String,
}

/// One file that differs between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// Lines added; none for a binary file.
    pub added: Option<u64>,
    /// Lines removed; none for a binary file.
    pub removed: Option<u64>,
}

/// A project's bare mirror.
#[derive(Debug, Clone)]
pub struct Mirror {
    pub(crate) dir: PathBuf,
    pub(crate) source: Option<String>,
    pub(crate) credential: Option<Credential>,
}

impl Mirror {
    /// Opens the mirror at `dir`, making it first if there is none, and remembers where it fetches from.
    /// The caller holds the project's lock.
    ///
    /// The source, which may carry a credential, is kept in memory only.
    pub async fn ensure(dir: impl AsRef<Path>, source: &str) -> Result<Self> {
        let dir = absolute(dir.as_ref())?;
        if dir.join("HEAD").exists() {
            stale::clear_locks(&dir)?;
        } else {
            let format = match local_path(source) {
                Some(path) => Repo::discover(path).await?.object_format().await?,
                None => ObjectFormat::Sha1,
            };
            make(&dir, format).await?;
        }
        Ok(Self { dir, source: Some(source.to_owned()), credential: None })
    }

    /// The same for a copy of a mirror that is elsewhere and has ids of this kind. One of another kind, in which
    /// nothing is yet, is made anew: a fetch could never fill it.
    pub async fn ensure_replica(dir: impl AsRef<Path>, source: &str, format: ObjectFormat) -> Result<Self> {
        let dir = absolute(dir.as_ref())?;
        if !dir.join("HEAD").exists() {
            make(&dir, format).await?;
        }
        stale::clear_locks(&dir)?;
        let replica = Self { dir, source: Some(source.to_owned()), credential: None };
        let has = ObjectFormat::read(replica.git("rev-parse")).await?;
        if has == format {
            return Ok(replica);
        }
        if !replica.refs("refs/").await?.is_empty() {
            return Err(Error::OtherFormat { dir: replica.dir, has, wanted: format });
        }
        let removing = Error::io(format!("removing {}", replica.dir.display()));
        std::fs::remove_dir_all(&replica.dir).map_err(removing)?;
        make(&replica.dir, format).await?;
        Ok(replica)
    }

    /// The same, with what opens a private source. It is kept in memory and lent to the git that fetches.
    pub fn with_credential(mut self, credential: Option<Credential>) -> Self {
        self.credential = credential;
        self
    }

    /// Opens a mirror that exists, to read from it and to serve it.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = absolute(dir.as_ref())?;
        if dir.join("HEAD").exists() {
            Ok(Self { dir, source: None, credential: None })
        } else {
            Err(Error::NotARepository(dir))
        }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where its objects are: what is bound into sandboxes, read-only.
    pub fn objects_dir(&self) -> PathBuf {
        self.dir.join("objects")
    }

    /// The commit that a branch, tag or commit id stands for.
    pub async fn resolve(&self, name: &str) -> Result<String> {
        let plain = !name.starts_with('-') && !name.chars().any(|c| c.is_control() || c.is_whitespace());
        let output = self
            .git("rev-parse")
            .args(["--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")])
            .output()
            .await?;
        let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if plain && output.status.success() && !commit.is_empty() {
            Ok(commit)
        } else {
            Err(Error::UnknownRef(name.to_owned()))
        }
    }

    /// The same where whatever is done next with the commit fails if there is none: a whole id is taken as it is.
    pub(crate) async fn commit_id(&self, name: &str) -> Result<String> {
        let whole = matches!(name.len(), 40 | 64) && name.bytes().all(|c| c.is_ascii_hexdigit());
        if whole { Ok(name.to_owned()) } else { self.resolve(name).await }
    }

    /// Makes a branch for a sandbox, at a commit. Doing it again with the same commit is harmless
    /// while the branch has not moved.
    pub async fn create_branch(&self, name: &str, commit: &str) -> Result<()> {
        validate_branch_name(name)?;
        let commit = self.commit_id(commit).await?;
        let made = format!("create refs/heads/{name} {commit}\ncreate refs/owned/{name} {commit}\n");
        match self.git("update-ref").arg("--stdin").stdin(made).bytes().await {
            Ok(_) => Ok(()),
            Err(error) => match self.branch_commit(name).await? {
                Some(at) if at == commit && self.is_owned(name).await? => Ok(()),
                Some(_) => Err(Error::BranchExists(name.to_owned())),
                None => Err(error),
            },
        }
    }

    /// The commit a branch is at, sandbox branches included.
    pub async fn branch_commit(&self, name: &str) -> Result<Option<String>> {
        validate_branch_name(name)?;
        match self.resolve(&format!("refs/heads/{name}")).await {
            Ok(commit) => Ok(Some(commit)),
            Err(Error::UnknownRef(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A branch name for a ticket that is free here and, as of the last fetch, at the source:
    /// `<prefix>/<end of the ticket's id>-<slug of the title>`, with a number on a collision.
    pub async fn unique_branch_name(&self, prefix: &str, ticket_id: &str, title: &str) -> Result<String> {
        let [ours, source] = self.refs_below(["refs/heads/", "refs/remotes/source/"]).await?;
        let taken: BTreeSet<String> = ours.into_keys().chain(source.into_keys()).collect();
        candidates(prefix, ticket_id, title)
            .find(|name| validate_branch_name(name).is_ok() && !taken.iter().any(|other| clash(name, other)))
            .ok_or_else(|| Error::BranchExists(format!("{prefix}/{ticket_id}")))
    }

    /// What changed between two commits, as a patch; cut with a mark at [`DIFF_MAX_BYTES`].
    pub async fn diff(&self, base: &str, head: &str) -> Result<String> {
        let (base, head) = (self.resolve(base).await?, self.resolve(head).await?);
        let call = self
            .git("diff")
            .args(["--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", &base, &head, "--"])
            .max_output(DIFF_MAX_BYTES);
        let output = call.output().await?;
        if !output.status.success() && !output.truncated {
            return Err(self.git("diff").failed(&output.stderr));
        }
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.truncated {
            text.push_str(&format!("\n[cut: the diff is longer than {DIFF_MAX_BYTES} bytes]\n"));
        }
        Ok(text)
    }

    /// The files that differ between two commits.
    pub async fn changed_files(&self, base: &str, head: &str) -> Result<Vec<ChangedFile>> {
        let (base, head) = (self.resolve(base).await?, self.resolve(head).await?);
        let call = self.git("diff").args(["--numstat", "--no-renames", "-z", &base, &head, "--"]);
        let bytes = call.bytes().await?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.split('\0').filter_map(read_numstat).collect())
    }

    /// The commits of `head` that `base` does not have, newest first, at most 500.
    pub async fn log_range(&self, base: &str, head: &str) -> Result<Vec<Commit>> {
        let (base, head) = (self.resolve(base).await?, self.resolve(head).await?);
        let text = self
            .git("log")
            .args([&format!("--max-count={LOG_MAX_COMMITS}"), "--format=%H%x00%an%x00%at%x00%s"])
            .args([&format!("{base}..{head}"), "--"])
            .text()
            .await?;
        Ok(text.lines().filter_map(read_commit).collect())
    }

    /// Whether a branch of the source, as of the last fetch, has this commit.
    pub async fn source_has(&self, branch: &str, commit: &str) -> Result<bool> {
        validate_branch_name(branch)?;
        let commit = self.commit_id(commit).await?;
        let tip = format!("refs/remotes/source/{branch}");
        match self.git("merge-base").args(["--is-ancestor", &commit, &tip]).holds().await {
            Err(_) if self.resolve(&tip).await.is_err() => Ok(false),
            answered => answered,
        }
    }

    /// The commit that a branch made for a sandbox started from; none if it is no such branch.
    pub async fn branch_start(&self, name: &str) -> Result<Option<String>> {
        Ok(self.refs("refs/owned/").await?.remove(name))
    }

    async fn is_owned(&self, name: &str) -> Result<bool> {
        Ok(self.refs("refs/owned/").await?.contains_key(name))
    }

    /// The refs below a prefix, by the rest of their name.
    pub(crate) async fn refs(&self, prefix: &str) -> Result<Refs> {
        let [refs] = self.refs_below([prefix]).await?;
        Ok(refs)
    }

    /// The refs below each of several prefixes, as they are at one moment.
    pub(crate) async fn refs_below<const N: usize>(&self, prefixes: [&str; N]) -> Result<[Refs; N]> {
        list_refs(self.git("for-each-ref"), prefixes).await
    }

    pub(crate) fn git(&self, operation: &str) -> Git {
        Git::bare(&self.dir, operation)
    }
}

/// Made under another name and renamed, so that a crash leaves no half a mirror.
async fn make(dir: &Path, format: ObjectFormat) -> Result<()> {
    let parent = dir.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).map_err(Error::io(format!("making {}", parent.display())))?;
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let fresh = parent.join(name);
    let _ = std::fs::remove_dir_all(&fresh);
    Git::at(parent, "init")
        .args(["--quiet", "--bare", "--template=", "--initial-branch=main"])
        .arg(format!("--object-format={format}"))
        .arg("--")
        .arg(&fresh)
        .bytes()
        .await?;
    for (name, value) in SETTINGS {
        Git::bare(&fresh, "config").args([name, value]).bytes().await?;
    }
    Git::bare(&fresh, "config").args(["--add", "transfer.hideRefs", "refs/owned"]).bytes().await?;
    match std::fs::rename(&fresh, dir) {
        // Somebody else made it in the meantime.
        Err(_) if dir.join("HEAD").exists() => {
            let _ = std::fs::remove_dir_all(&fresh);
            Ok(())
        }
        result => result.map_err(Error::io(format!("making {}", dir.display()))),
    }
}

/// Lists the refs of whatever repository a `for-each-ref` is for, by the rest of their name.
pub(crate) async fn list_refs<const N: usize>(call: Git, prefixes: [&str; N]) -> Result<[Refs; N]> {
    let text = call.arg("--format=%(objectname) %(refname)").args(prefixes).text().await?;
    let mut found = [const { Refs::new() }; N];
    for (commit, name) in text.lines().filter_map(|line| line.split_once(' ')) {
        for (prefix, refs) in prefixes.iter().zip(&mut found) {
            if let Some(name) = name.strip_prefix(prefix) {
                refs.insert(name.to_owned(), commit.to_owned());
            }
        }
    }
    Ok(found)
}

fn read_numstat(entry: &str) -> Option<ChangedFile> {
    let mut parts = entry.splitn(3, '\t');
    let (added, removed, path) = (parts.next()?, parts.next()?, parts.next()?);
    Some(ChangedFile { path: path.to_owned(), added: added.parse().ok(), removed: removed.parse().ok() })
}

fn read_commit(line: &str) -> Option<Commit> {
    let mut parts = line.splitn(4, '\0');
    Some(Commit {
        id: parts.next()?.to_owned(),
        author: parts.next()?.to_owned(),
        at: parts.next()?.parse().ok()?,
        subject: parts.next()?.to_owned(),
    })
}
