//! One look at the work tree, and the step that comes of it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sunaba_git::{Changes, Scratch, Seen};
use tokio::time::timeout;

/// The longest that one look may take.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// A larger file is left out.
const FILE_MAX_BYTES: u64 = 5 * 1024 * 1024;
/// In a larger tree no steps are taken.
const ENTRIES_MAX: usize = 200_000;
const PATCH_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The tree after a change.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) tree: String,
    pub(super) parent: String,
    pub(super) changes: Changes,
}

/// Why a path is not in the tree as it lies on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftOut {
    TooLarge { bytes: u64 },
    Repository,
    Unreadable,
}

impl LeftOut {
    /// In words, for whoever reads the story.
    pub(super) fn words(self) -> String {
        match self {
            Self::TooLarge { bytes } => format!("{bytes} bytes, more than {FILE_MAX_BYTES}"),
            Self::Repository => "a repository of its own".to_owned(),
            Self::Unreadable => "cannot be read".to_owned(),
        }
    }
}

/// Why there is no step.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error("looking at the files took longer than {} s", LOOK_MAX.as_secs())]
    TooSlow,
    #[error("the tree has {0} files, more than {ENTRIES_MAX}")]
    TooMany(usize),
    #[error("git could not take the files: {0}")]
    Git(#[from] sunaba_git::Error),
}

impl Trouble {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::TooSlow => "too_slow",
            Self::TooMany(_) => "too_many_files",
            Self::Git(_) => "git",
        }
    }
}

/// The work tree as it was at the last step.
#[derive(Debug)]
pub(super) struct Capture {
    scratch: Scratch,
    work_tree: PathBuf,
    last: String,
    /// Whether a look ended between taking files and finding out what they make of the tree.
    behind: bool,
    /// What was left out and has been told.
    told: HashSet<Vec<u8>>,
    /// What was left out since, and has not.
    pub(super) left_out: Vec<(String, LeftOut)>,
}

impl Capture {
    /// Begins where the scratch repository is.
    pub(super) async fn begin(scratch: Scratch, work_tree: PathBuf) -> Result<Self, Trouble> {
        let last = scratch.tree().await?;
        Ok(Self { scratch, work_tree, last, behind: false, told: HashSet::new(), left_out: Vec::new() })
    }

    /// Takes what changed since the last time, within bounds; none when nothing did.
    pub(super) async fn take(&mut self) -> Result<Option<Taken>, Trouble> {
        timeout(LOOK_MAX, self.take_all()).await.unwrap_or(Err(Trouble::TooSlow))
    }

    async fn take_all(&mut self) -> Result<Option<Taken>, Trouble> {
        let known = self.scratch.entries();
        if known > ENTRIES_MAX {
            return Err(Trouble::TooMany(known));
        }
        let seen = self.scratch.look().await?;
        let entries = known + seen.iter().filter(|seen| !seen.known).count();
        if entries > ENTRIES_MAX {
            return Err(Trouble::TooMany(entries));
        }
        let (taken, forgotten) = self.sort(&seen);
        if taken.is_empty() && forgotten.is_empty() && !self.behind {
            return Ok(None);
        }
        self.behind = true;
        let tree = self.scratch.stage(&taken, &forgotten).await?;
        if tree == self.last {
            self.behind = false;
            return Ok(None);
        }
        let changes = self.scratch.changes(&self.last, &tree, PATCH_MAX_BYTES).await?;
        self.behind = false;
        let parent = std::mem::replace(&mut self.last, tree.clone());
        Ok(Some(Taken { tree, parent, changes }))
    }

    /// What git is to take, and what it is to forget. The rest is left out and noted.
    fn sort<'a>(&mut self, seen: &'a [Seen]) -> (Vec<&'a [u8]>, Vec<&'a [u8]>) {
        let (mut taken, mut forgotten) = (Vec::new(), Vec::new());
        for one in seen {
            let left_out = match look_at(&self.work_tree, one) {
                Look::Take => {
                    taken.push(&*one.path);
                    continue;
                }
                Look::Forget => {
                    forgotten.push(&*one.path);
                    continue;
                }
                Look::LeaveOut(why) => why,
            };
            if self.told.insert(one.path.clone()) {
                self.left_out.push((String::from_utf8_lossy(&one.path).into_owned(), left_out));
            }
        }
        (taken, forgotten)
    }
}

enum Look {
    Take,
    Forget,
    LeaveOut(LeftOut),
}

fn look_at(work_tree: &Path, seen: &Seen) -> Look {
    if seen.is_repository() {
        return Look::LeaveOut(LeftOut::Repository);
    }
    let path = work_tree.join(OsStr::from_bytes(&seen.path));
    let Ok(metadata) = std::fs::symlink_metadata(&path) else { return Look::Take };
    let kind = metadata.file_type();
    if kind.is_symlink() || kind.is_dir() {
        return Look::Take;
    }
    if !kind.is_file() {
        // A pipe, say, in the place of a file: nothing that a tree could hold.
        return Look::Forget;
    }
    if metadata.len() > FILE_MAX_BYTES {
        return Look::LeaveOut(LeftOut::TooLarge { bytes: metadata.len() });
    }
    // Git gives up on everything when it cannot read one. It may have become a pipe meanwhile, which must not wait.
    let opened = std::fs::File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(&path);
    match opened {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Look::LeaveOut(LeftOut::Unreadable)
        }
        _ => Look::Take,
    }
}
