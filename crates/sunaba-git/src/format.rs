//! Which hash a repository names its objects by.

use std::fmt;

use crate::Result;
use crate::command::Git;

/// The kind of object ids in a repository; two kinds do not mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 40 digits.
    Sha1,
    /// 64 digits.
    Sha256,
}

impl ObjectFormat {
    /// The kind of a whole id.
    pub fn of_id(id: &str) -> Self {
        if id.len() == 64 { Self::Sha256 } else { Self::Sha1 }
    }

    /// The kind in use where this `rev-parse` is called.
    pub(crate) async fn read(rev_parse: Git) -> Result<Self> {
        let said = rev_parse.arg("--show-object-format").text().await?;
        Ok(if said.trim() == "sha256" { Self::Sha256 } else { Self::Sha1 })
    }
}

impl fmt::Display for ObjectFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        })
    }
}
