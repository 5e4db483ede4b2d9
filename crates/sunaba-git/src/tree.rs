//! What a commit holds, read from the mirror's objects and never from a work tree.

use crate::changes::{Changes, between};
use crate::command::LONG;
use crate::{Error, Mirror, Result};

/// The longest listing of one commit that is read.
const LISTING_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// One file of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// Its path from the top.
    pub path: String,
    /// The id of its content.
    pub blob: String,
    /// Whether it is an ordinary file; links and submodules are not.
    pub ordinary: bool,
}

/// What a name in a folder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// An ordinary file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A commit of another repository.
    Submodule,
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The name; what of it is no text is replaced by a mark.
    pub name: String,
    /// What it stands for.
    pub kind: EntryKind,
    /// Whether it is a file that can be executed.
    pub executable: bool,
    /// The id of what it stands for.
    pub id: String,
    /// How large a file or link is.
    pub size_bytes: Option<u64>,
}

impl Mirror {
    /// Whether a tree, or a commit with its tree, is here. It may have come without any name.
    pub async fn has_tree(&self, id: &str) -> Result<bool> {
        let whole = matches!(id.len(), 40 | 64) && id.bytes().all(|letter| letter.is_ascii_hexdigit());
        let output = self.git("cat-file").args(["-e", &format!("{id}^{{tree}}")]).output().await?;
        Ok(whole && output.status.success())
    }

    /// What differs between two trees or commits, below some paths or everywhere.
    pub async fn changes(
        &self,
        from: &str,
        to: &str,
        paths: &[&str],
        patch_max_bytes: u64,
    ) -> Result<Changes> {
        let trees = [format!("{from}^{{tree}}"), format!("{to}^{{tree}}")];
        between(self.git("diff-tree").limit(LONG), [&trees[0], &trees[1]], paths, patch_max_bytes).await
    }

    /// A commit of a tree that is here, following another commit. Made again at the same time it is the same.
    pub async fn commit_tree(
        &self,
        tree: &str,
        parent: &str,
        message: &str,
        at_seconds: i64,
    ) -> Result<String> {
        let mut call = self.git("commit-tree").args([tree, "-p", parent]);
        for who in ["AUTHOR", "COMMITTER"] {
            call = call
                .env(&format!("GIT_{who}_NAME"), "Sunaba")
                .env(&format!("GIT_{who}_EMAIL"), "sunaba@sunaba.invalid")
                .env(&format!("GIT_{who}_DATE"), format!("{at_seconds} +0000"));
        }
        call.stdin(message).text().await
    }

    /// What a path of a tree or commit stands for.
    pub async fn entry_at(&self, tree: &str, path: &str) -> Result<Option<TreeEntry>> {
        let call = self.git("ls-tree").args(["-z", "-l", "--full-tree", tree, "--", path]);
        let bytes = call.env("GIT_LITERAL_PATHSPECS", "1").max_output(LISTING_MAX_BYTES).bytes().await?;
        Ok(bytes.split(|byte| *byte == 0).find_map(read_long_entry))
    }

    /// What is in a tree, or at the top of a commit.
    pub async fn entries_of(&self, tree: &str) -> Result<Vec<TreeEntry>> {
        let call = self.git("ls-tree").args(["-z", "-l", "--full-tree", tree]);
        let bytes = call.limit(LONG).max_output(LISTING_MAX_BYTES).bytes().await?;
        Ok(bytes.split(|byte| *byte == 0).filter_map(read_long_entry).collect())
    }

    /// A file's content; more than `max_bytes` is an error.
    pub async fn blob(&self, id: &str, max_bytes: u64) -> Result<Vec<u8>> {
        let output = self.git("cat-file").args(["blob", id]).max_output(max_bytes).output().await?;
        match (output.truncated, output.status.success()) {
            (true, _) => Err(Error::TooLarge { path: id.to_owned(), max_bytes }),
            (false, true) => Ok(output.stdout),
            (false, false) => Err(self.git("cat-file").failed(&output.stderr)),
        }
    }

    /// Every file of a commit. A path that is not text is left out.
    pub async fn files_at(&self, commit: &str) -> Result<Vec<TreeFile>> {
        let commit = self.commit_id(commit).await?;
        let call = self.git("ls-tree").args(["-r", "-z", "--full-tree", &commit]);
        let bytes = call.limit(LONG).max_output(LISTING_MAX_BYTES).bytes().await?;
        Ok(bytes.split(|byte| *byte == 0).filter_map(read_entry).collect())
    }

    /// The content of an ordinary file among those of a commit; none when there is no such file. A file of more
    /// than `max_bytes` is an error.
    pub async fn read_file(&self, files: &[TreeFile], path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        let found = files.iter().find(|file| file.path == path && file.ordinary);
        let Some(file) = found else { return Ok(None) };
        match self.blob(&file.blob, max_bytes).await {
            Err(Error::TooLarge { max_bytes, .. }) => {
                Err(Error::TooLarge { path: path.to_owned(), max_bytes })
            }
            read => read.map(Some),
        }
    }
}

/// `<mode> <type> <id>\t<path>`
fn read_entry(entry: &[u8]) -> Option<TreeFile> {
    let entry = std::str::from_utf8(entry).ok()?;
    let (facts, path) = entry.split_once('\t')?;
    let mut facts = facts.split(' ');
    let (mode, kind, blob) = (facts.next()?, facts.next()?, facts.next()?);
    let ordinary = kind == "blob" && mode.starts_with("100");
    Some(TreeFile { path: path.to_owned(), blob: blob.to_owned(), ordinary })
}

/// `<mode> <type> <id> <size, filled up with spaces>\t<path>`
fn read_long_entry(entry: &[u8]) -> Option<TreeEntry> {
    let tab = entry.iter().position(|byte| *byte == b'\t')?;
    let facts = std::str::from_utf8(&entry[..tab]).ok()?;
    let path = String::from_utf8_lossy(&entry[tab + 1..]).into_owned();
    let mut facts = facts.split_ascii_whitespace();
    let (mode, _, id) = (facts.next()?, facts.next()?, facts.next()?);
    let kind = match mode {
        "040000" => EntryKind::Directory,
        "120000" => EntryKind::Symlink,
        "160000" => EntryKind::Submodule,
        _ => EntryKind::File,
    };
    Some(TreeEntry {
        name: path.rsplit('/').next().unwrap_or_default().to_owned(),
        kind,
        executable: mode == "100755",
        id: id.to_owned(),
        size_bytes: facts.next().and_then(|size| size.parse().ok()),
    })
}
