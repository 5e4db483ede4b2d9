//! Files as the mirrors on this node's disk have them.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use sunaba_git::{ChangeKind, Changes, DIFF_MAX_BYTES, EntryKind, Mirror, TreeEntry};
use sunaba_types::Sandbox;
use tokio::time::{Instant, sleep};

use super::{Between, Content, Entry, FileChange, FileSource, Patch, Shown};
use crate::SourceError;

/// The largest file that is shown.
const FILE_MAX_BYTES: u64 = 5 * 1024 * 1024;
/// Most entries of one folder that are shown.
const ENTRIES_MAX: usize = 10_000;
/// A step is pushed a moment after its event: that long it is waited for.
const PUSH_PATIENCE: Duration = Duration::from_secs(2);
const PUSH_POLL: Duration = Duration::from_millis(50);

/// Reads the mirrors of this node.
#[derive(Debug)]
pub struct MirrorFiles {
    /// The folder of mirrors.
    pub git_root: PathBuf,
}

fn absent(why: &str) -> SourceError {
    SourceError::Absent(why.to_owned())
}

fn failed(error: sunaba_git::Error) -> SourceError {
    SourceError::Failed(Box::new(error))
}

impl MirrorFiles {
    fn open(&self, sandbox: &Sandbox) -> Result<Mirror, SourceError> {
        let project = sandbox.project_id.as_ref();
        let project = project.ok_or_else(|| absent("this sandbox has no repository of ours"))?;
        let path = self.git_root.join(format!("{project}.git"));
        if !path.exists() {
            return Err(absent("the repository's mirror is not here"));
        }
        Mirror::open(path).map_err(failed)
    }
}

/// Waits a moment for a step that is on its way.
async fn arrived(mirror: &Mirror, sandbox: &Sandbox, tree: &str) -> Result<(), SourceError> {
    let until = Instant::now() + PUSH_PATIENCE;
    while !mirror.has_tree(tree).await.map_err(failed)? {
        if sandbox.state.is_terminal() {
            let words = format!(
                "the files of this step ({tree}) were lost with the sandbox: it was ended before they were pushed"
            );
            return Err(SourceError::NotPushed(words));
        }
        if Instant::now() >= until {
            let words = format!(
                "the files of this step ({tree}) are not here yet; they are pushed while the agent works: try again in a moment"
            );
            return Err(SourceError::NotPushed(words));
        }
        sleep(PUSH_POLL).await;
    }
    Ok(())
}

#[async_trait]
impl FileSource for MirrorFiles {
    async fn patch(&self, sandbox: &Sandbox, between: &Between) -> Result<Patch, SourceError> {
        let mirror = self.open(sandbox)?;
        let to = match (&between.to, &sandbox.head_commit, &sandbox.branch_name) {
            (Some(to), ..) | (None, Some(to), _) => Some(to.clone()),
            (None, None, Some(branch)) => mirror.branch_commit(branch).await.map_err(failed)?,
            (None, None, None) => None,
        };
        let to = to.ok_or_else(|| absent("nothing was pushed yet"))?;
        arrived(&mirror, sandbox, &between.from).await?;
        arrived(&mirror, sandbox, &to).await?;
        let paths: Vec<&str> = between.path.as_deref().into_iter().collect();
        let changes = mirror.changes(&between.from, &to, &paths, DIFF_MAX_BYTES).await.map_err(failed)?;
        Ok(patch(changes))
    }

    async fn show(&self, sandbox: &Sandbox, tree: &str, path: &str) -> Result<Shown, SourceError> {
        let mirror = self.open(sandbox)?;
        arrived(&mirror, sandbox, tree).await?;
        if path.is_empty() {
            return list(&mirror, tree, path).await;
        }
        let found = mirror.entry_at(tree, path).await.map_err(failed)?;
        let found =
            found.ok_or_else(|| SourceError::NoSuchPath(format!("there is no {path} at that step")))?;
        match found.kind {
            EntryKind::Directory => list(&mirror, &found.id, path).await,
            EntryKind::Submodule => Ok(Shown::Submodule { commit: found.id }),
            EntryKind::File => {
                let content = read(&mirror, &found).await?;
                let (size_bytes, executable) = (found.size_bytes.unwrap_or(0), found.executable);
                Ok(Shown::File { size_bytes, executable, content })
            }
            EntryKind::Symlink => Ok(Shown::Symlink { content: read(&mirror, &found).await? }),
        }
    }
}

async fn list(mirror: &Mirror, tree: &str, path: &str) -> Result<Shown, SourceError> {
    let found = mirror.entries_of(tree).await.map_err(failed)?;
    let truncated = found.len() > ENTRIES_MAX;
    let entries = found.into_iter().take(ENTRIES_MAX).map(|entry| view(entry, path)).collect();
    Ok(Shown::Directory { entries, truncated })
}

async fn read(mirror: &Mirror, entry: &TreeEntry) -> Result<Content, SourceError> {
    match mirror.blob(&entry.id, FILE_MAX_BYTES).await {
        Ok(bytes) => Ok(Content::of(bytes)),
        Err(sunaba_git::Error::TooLarge { .. }) => Err(SourceError::TooLarge(format!(
            "the file has {} bytes; more than {FILE_MAX_BYTES} are not shown",
            entry.size_bytes.unwrap_or(0)
        ))),
        Err(error) => Err(failed(error)),
    }
}

fn view(entry: TreeEntry, folder: &str) -> Entry {
    let path = if folder.is_empty() { entry.name.clone() } else { format!("{folder}/{}", entry.name) };
    let kind = match entry.kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Submodule => "submodule",
    };
    let (name, size_bytes, executable) = (entry.name, entry.size_bytes, entry.executable);
    Entry { name, path, kind: kind.to_owned(), size_bytes, executable }
}

fn patch(changes: Changes) -> Patch {
    let Changes { files, patch, truncated } = changes;
    let files = files.into_iter().map(|change| FileChange {
        change_type: match change.kind {
            ChangeKind::Created => "created",
            ChangeKind::Modified => "modified",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Renamed => "renamed",
        }
        .to_owned(),
        path: change.path,
        old_path: change.old_path,
        binary: change.binary,
        lines_added: change.added,
        lines_removed: change.removed,
    });
    Patch { files: files.collect(), diff: patch, truncated }
}
