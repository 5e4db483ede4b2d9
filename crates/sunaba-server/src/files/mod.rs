//! Files of sandboxes, as their project's mirror has them: at a step, and between two.

mod mirror;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sunaba_types::Sandbox;
use utoipa::ToSchema;

pub use mirror::MirrorFiles;

use crate::SourceError;

/// Between which states of the files something is asked, each a tree or a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Between {
    /// The earlier one.
    pub from: String,
    /// The later one; what the sandbox came to when it is absent.
    pub to: Option<String>,
    /// Only this file, or what is below this folder.
    pub path: Option<String>,
}

/// One file that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileChange {
    /// Its path from the top of the repository.
    pub path: String,
    /// Its path before, when it was renamed.
    pub old_path: Option<String>,
    /// `created`, `modified`, `deleted` or `renamed`.
    pub change_type: String,
    /// Whether it is no text; its lines are not counted then.
    pub binary: bool,
    /// Lines added.
    pub lines_added: u64,
    /// Lines removed.
    pub lines_removed: u64,
}

/// All that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Patch {
    /// Each file.
    pub files: Vec<FileChange>,
    /// The unified diff of all of them.
    pub diff: String,
    /// Whether the diff was cut off; the files are all there.
    pub truncated: bool,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Shown {
    /// A folder.
    Directory {
        /// What is in it, by name.
        entries: Vec<Entry>,
        /// Whether there is more than is shown.
        truncated: bool,
    },
    /// A file.
    File {
        /// How large it is.
        size_bytes: u64,
        /// Whether it can be executed.
        executable: bool,
        /// What is in it.
        #[serde(flatten)]
        content: Content,
    },
    /// A symbolic link, never followed.
    Symlink {
        /// Where it points.
        #[serde(flatten)]
        content: Content,
    },
    /// A repository of its own, of which only the commit is known.
    Submodule {
        /// The commit.
        commit: String,
    },
}

/// Bytes on their way through JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Content {
    /// `utf-8`, or `base64` of what is no text.
    pub encoding: String,
    /// The content.
    pub content: String,
}

impl Content {
    /// As text where it is text.
    pub fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            // A NUL is no part of a text, and not everybody's JSON takes it.
            Ok(content) if !content.contains('\0') => Self { encoding: "utf-8".to_owned(), content },
            Ok(text) => Self { encoding: "base64".to_owned(), content: STANDARD.encode(text) },
            Err(error) => Self { encoding: "base64".to_owned(), content: STANDARD.encode(error.as_bytes()) },
        }
    }

    /// As it was.
    pub fn bytes(&self) -> Vec<u8> {
        match self.encoding.as_str() {
            "base64" => STANDARD.decode(&self.content).unwrap_or_default(),
            _ => self.content.clone().into_bytes(),
        }
    }
}

/// One thing in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Its name there.
    pub name: String,
    /// Its path from the top of the repository.
    pub path: String,
    /// `file`, `directory`, `symlink` or `submodule`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How large a file is.
    pub size_bytes: Option<u64>,
    /// Whether a file can be executed.
    pub executable: bool,
}

/// Gives a sandbox's files.
#[async_trait]
pub trait FileSource: Send + Sync + std::fmt::Debug {
    /// What differs.
    async fn patch(&self, sandbox: &Sandbox, between: &Between) -> Result<Patch, SourceError>;
    /// What is at a path of a tree or a commit; the empty path is the top.
    async fn show(&self, sandbox: &Sandbox, tree: &str, path: &str) -> Result<Shown, SourceError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        for (bytes, encoding) in
            [(b"text\n".to_vec(), "utf-8"), (vec![0, 1, 255], "base64"), (b"a\0b".to_vec(), "base64")]
        {
            let content = Content::of(bytes.clone());
            assert_eq!((content.encoding.as_str(), content.bytes()), (encoding, bytes));
        }
    }
}
