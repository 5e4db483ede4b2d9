//! A person's repository. Read here; written only by [`crate::publish_branch`].

use std::path::{Path, PathBuf};

use crate::command::{Git, Owner};
use crate::{Error, ObjectFormat, Result, validate_branch_name};

/// A repository on this machine, with or without a work tree.
#[derive(Debug, Clone)]
pub struct Repo {
    root: PathBuf,
    git_dir: PathBuf,
    bare: bool,
    owner: Option<Owner>,
}

impl Repo {
    /// Finds the repository that a path is in.
    pub async fn discover(path: impl AsRef<Path>) -> Result<Self> {
        let asked = path.as_ref();
        let path =
            asked.canonicalize().map_err(Error::io(format!("finding the repository {}", asked.display())))?;
        if !path.is_dir() {
            return Err(Error::NotARepository(path));
        }
        let owner = Owner::of(&path)?;
        let asked =
            ["--is-bare-repository", "--is-inside-work-tree", "--absolute-git-dir", "--show-toplevel"];
        // Without a work tree the last question fails; the others are answered by then.
        let facts = Git::at(&path, "rev-parse").args(asked).owner(owner).output().await?;
        if facts.stderr.contains("not a git repository") {
            return Err(Error::NotARepository(path));
        }
        let text = String::from_utf8_lossy(&facts.stdout).into_owned();
        let [bare, in_work_tree, git_dir, rest @ ..] = &text.lines().collect::<Vec<_>>()[..] else {
            return Err(Git::at(&path, "rev-parse").failed(&facts.stderr));
        };
        let (bare, git_dir) = (*bare == "true", PathBuf::from(git_dir));
        let root = match (bare, *in_work_tree, rest) {
            (true, ..) => git_dir.clone(),
            (false, "true", [root]) => PathBuf::from(root),
            _ => return Err(Error::NotARepository(path)),
        };
        let owner = Owner::of(&git_dir)?;
        Ok(Self { root, git_dir, bare, owner })
    }

    /// The top of the work tree; for a bare repository the repository itself.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Where git keeps its files.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The user whose it is, if we are root and it is somebody else's.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Whether there is no work tree.
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// The branch that is checked out; none when HEAD is detached.
    pub async fn current_branch(&self) -> Result<Option<String>> {
        let output = self.git("symbolic-ref").args(["--quiet", "--short", "HEAD"]).output().await?;
        let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok((output.status.success() && !name.is_empty()).then_some(name))
    }

    /// The branch that work starts from: the one checked out, else `main`, `master`, or the one
    /// written to last. [`Error::NoCommits`] when there is none.
    pub async fn default_branch(&self) -> Result<String> {
        let current = self.current_branch().await?;
        for name in current.into_iter().chain(["main".to_owned(), "master".to_owned()]) {
            if self.branch_exists(&name).await? {
                return Ok(name);
            }
        }
        let newest = self
            .git("for-each-ref")
            .args(["--sort=-committerdate", "--count=1", "--format=%(refname:lstrip=2)", "refs/heads"])
            .text()
            .await?;
        if newest.is_empty() { Err(Error::NoCommits(self.root.clone())) } else { Ok(newest) }
    }

    /// The commit a branch is at.
    pub async fn head_commit(&self, branch: &str) -> Result<String> {
        if let Some(commit) = self.find_commit(branch).await? {
            return Ok(commit);
        }
        // "There is no main" would mislead where there is nothing at all.
        self.default_branch().await?;
        Err(Error::UnknownRef(branch.to_owned()))
    }

    /// Whether there is such a branch, with a commit.
    pub async fn branch_exists(&self, branch: &str) -> Result<bool> {
        Ok(self.find_commit(branch).await?.is_some())
    }

    /// Whether tracked files differ from HEAD or untracked ones exist; never for a bare repository.
    pub async fn is_dirty(&self) -> Result<bool> {
        if self.bare {
            return Ok(false);
        }
        let status =
            self.git("status").args(["--porcelain", "--untracked-files=normal"]).max_output(64 * 1024);
        let output = status.output().await?;
        if !output.status.success() && !output.truncated {
            return Err(Error::Failed {
                operation: "status".to_owned(),
                stderr: crate::command::presentable(&output.stderr),
            });
        }
        Ok(!output.stdout.is_empty())
    }

    /// Where each branch is checked out, linked work trees included.
    pub(crate) async fn checked_out(&self) -> Result<Vec<(String, PathBuf)>> {
        let listing = self.git("worktree").args(["list", "--porcelain"]).text().await?;
        let mut found = Vec::new();
        let mut work_tree = PathBuf::new();
        for line in listing.lines() {
            if let Some(path) = line.strip_prefix("worktree ") {
                work_tree = PathBuf::from(path);
            } else if let Some(branch) = line.strip_prefix("branch refs/heads/") {
                found.push((branch.to_owned(), work_tree.clone()));
            }
        }
        Ok(found)
    }

    /// The commit of a branch by its full name, so that no tag or file can stand in for it.
    pub(crate) async fn find_commit(&self, branch: &str) -> Result<Option<String>> {
        validate_branch_name(branch)?;
        let output = self
            .git("rev-parse")
            .args(["--verify", "--quiet", "--end-of-options", &format!("refs/heads/{branch}^{{commit}}")])
            .output()
            .await?;
        let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok((output.status.success() && !commit.is_empty()).then_some(commit))
    }

    /// The kind of object ids in use.
    pub(crate) async fn object_format(&self) -> Result<ObjectFormat> {
        ObjectFormat::read(self.git("rev-parse")).await
    }

    pub(crate) fn git(&self, operation: &str) -> Git {
        Git::at(&self.root, operation).owner(self.owner)
    }
}
