//! What a sandbox had changed and not pushed to its branch, taken from the last of its steps that arrived.
//!
//! A step is a tree of most files, not of all: large ones and repositories within the tree are left out of it, and the
//! branch may have been pushed after it. So it does not take the branch's place; of each file that it changed since the
//! sandbox began, its version is put on top, unless the branch has a later one.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::{Git, LONG};
use crate::{Error, Mirror, Result};

/// The branch of a sandbox that is over, and where its work began.
#[derive(Debug, Clone, Copy)]
pub struct LeftBy<'a> {
    /// The sandbox.
    pub sandbox: &'a str,
    /// The commit that it started from.
    pub base: &'a str,
    /// The branch that it pushed to.
    pub branch: &'a str,
}

/// What became of its last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfinished {
    /// None arrived: what was not pushed is gone.
    Unknown,
    /// The branch has all of it.
    Nothing,
    /// It is on the branch now, in this commit.
    Committed(String),
}

/// Files that differ: mode and id by path, as git tells them.
type Differing = BTreeMap<Vec<u8>, (String, String)>;

/// Most that git says about what differs.
const LOOK_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Of a file that is not there.
const NO_FILE: &str = "000000";

impl Mirror {
    /// Puts what a sandbox had not pushed on top of its branch. Done again it changes nothing.
    pub async fn take_over_steps(
        &self,
        left: LeftBy<'_>,
        message: &str,
        at_seconds: i64,
    ) -> Result<Unfinished> {
        let step = match self.resolve(&format!("refs/sunaba/{}", left.sandbox)).await {
            Err(Error::UnknownRef(_)) => return Ok(Unfinished::Unknown),
            step => step?,
        };
        let Some(head) = self.branch_commit(left.branch).await? else { return Ok(Unfinished::Unknown) };
        let wanted = self.newer_in_step(left.base, &head, &step).await?;
        if wanted.is_empty() {
            return Ok(Unfinished::Nothing);
        }
        let tree = self.with_files(&head, &wanted).await?;
        let commit = self.commit_tree(&tree, &head, message, at_seconds).await?;
        let reference = format!("refs/heads/{}", left.branch);
        self.git("update-ref").args([&reference, &commit, &head]).bytes().await?;
        Ok(Unfinished::Committed(commit))
    }

    /// What the step changed since the beginning and the branch has not, or has in an earlier version.
    async fn newer_in_step(&self, base: &str, head: &str, step: &str) -> Result<Differing> {
        let (pushed, stepped) = (self.differing(base, head).await?, self.differing(base, step).await?);
        let step_is_later = self.committed_at(step).await? >= self.committed_at(head).await?;
        // What a later commit took back looks like what was never pushed.
        let taken_back = if step_is_later { HashSet::new() } else { self.touched(base, head).await? };
        let is_newer = |path: &Vec<u8>, file: &(String, String)| match pushed.get(path) {
            None => !taken_back.contains(path),
            Some(known) => known != file && step_is_later,
        };
        Ok(stepped.into_iter().filter(|(path, file)| is_newer(path, file)).collect())
    }

    async fn differing(&self, from: &str, to: &str) -> Result<Differing> {
        let trees = [format!("{from}^{{tree}}"), format!("{to}^{{tree}}")];
        let call = self.git("diff-tree").args(["-r", "-z", "--raw", "--no-renames", "--no-abbrev"]);
        let bytes = call.args(&trees).limit(LONG).max_output(LOOK_MAX_BYTES).bytes().await?;
        let mut pieces = bytes.split(|byte| *byte == 0);
        let mut found = Differing::new();
        while let (Some(what), Some(path)) = (pieces.next(), pieces.next()) {
            let what = String::from_utf8_lossy(what);
            let fields: Vec<&str> = what.trim_start_matches(':').split(' ').collect();
            if let [_, mode, _, id, _] = fields[..] {
                found.insert(path.to_vec(), (mode.to_owned(), id.to_owned()));
            }
        }
        Ok(found)
    }

    /// Every path that a commit between the two changed.
    async fn touched(&self, base: &str, head: &str) -> Result<HashSet<Vec<u8>>> {
        let call = self.git("log").args(["-z", "--format=", "--name-only", "--no-renames"]);
        let call = call.args([&format!("{base}..{head}"), "--"]).limit(LONG).max_output(LOOK_MAX_BYTES);
        let bytes = call.bytes().await?;
        // A line's end stands between two commits.
        let paths = bytes.split(|byte| *byte == 0).map(|path| path.strip_prefix(b"\n").unwrap_or(path));
        Ok(paths.filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect())
    }

    async fn committed_at(&self, commit: &str) -> Result<i64> {
        let text = self.git("log").args(["-1", "--format=%ct", commit, "--"]).text().await?;
        text.trim().parse().map_err(|_| Error::UnknownRef(commit.to_owned()))
    }

    /// The tree of a commit with these files in it.
    async fn with_files(&self, commit: &str, files: &Differing) -> Result<String> {
        let index = Index::new(self);
        index.git(self, "read-tree").args([commit]).limit(LONG).bytes().await?;
        let mut lines = Vec::new();
        for (path, (mode, id)) in files {
            // Of what is gone the id says nothing.
            let mode = if mode == NO_FILE { "0" } else { mode };
            lines.extend_from_slice(format!("{mode} {id}\t").as_bytes());
            lines.extend_from_slice(path);
            lines.push(0);
        }
        let call = index.git(self, "update-index").args(["-z", "--replace", "--index-info"]);
        call.stdin(lines).limit(LONG).bytes().await?;
        index.git(self, "write-tree").limit(LONG).text().await
    }
}

/// An index that is there for one tree. What a killed server left of another one is in nobody's way.
struct Index(OsString);

impl Index {
    fn new(mirror: &Mirror) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let index = Self(mirror.dir().join(format!("index-{process}-{number}")).into_os_string());
        // The name is this process's alone; an earlier one may have had the same number.
        index.remove();
        index
    }

    fn remove(&self) {
        let mut lock = self.0.clone();
        lock.push(".lock");
        for file in [&self.0, &lock] {
            // One that was never made need not be removed.
            let _ = std::fs::remove_file(file);
        }
    }

    fn git(&self, mirror: &Mirror, operation: &str) -> Git {
        mirror.git(operation).env("GIT_INDEX_FILE", &self.0)
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.remove();
    }
}
