//! What a commit holds, read from the mirror's objects and never from a work tree.

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

impl Mirror {
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
        let output = self.git("cat-file").args(["blob", &file.blob]).max_output(max_bytes).output().await?;
        if output.truncated {
            return Err(Error::TooLarge { path: path.to_owned(), max_bytes });
        }
        if !output.status.success() {
            return Err(self.git("cat-file").failed(&output.stderr));
        }
        Ok(Some(output.stdout))
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
