//! The file itself.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{Entry, VERSION};
use crate::{SessionStart, Transcript};

/// A session's file, open for more.
#[derive(Debug)]
pub(in crate::native) struct SessionFile {
    path: PathBuf,
    file: File,
}

impl SessionFile {
    /// Begins the file. What the session goes on from is in it before the file has its name, so that a process that
    /// dies here leaves the old file or the new one.
    pub(in crate::native) fn begin(
        home: &Path,
        session_id: &str,
        start: &SessionStart,
        so_far: Option<Entry>,
    ) -> io::Result<Self> {
        let path = path(home, session_id)?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let unfinished = path.with_extension("new");
        let mut file =
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&unfinished)?;
        let forked_from = match start {
            SessionStart::Fork { from, .. } => Some(from.clone()),
            SessionStart::New | SessionStart::Resume { .. } => None,
        };
        let head = Entry::Session { version: VERSION, session_id: session_id.to_owned(), forked_from };
        file.write_all(&lines(std::iter::once(head).chain(so_far))?)?;
        std::fs::rename(&unfinished, &path)?;
        Ok(Self { path, file })
    }

    /// Adds to it, all at once.
    pub(in crate::native) fn append(&mut self, entries: Vec<Entry>) -> io::Result<()> {
        self.file.write_all(&lines(entries)?)
    }

    /// All of it so far.
    pub(in crate::native) fn transcript(&self) -> io::Result<Transcript> {
        std::fs::read(&self.path).map(Transcript::new)
    }
}

/// What a session left, also when it was killed.
pub(in crate::native) fn find(home: &Path, session_id: &str) -> io::Result<Option<Transcript>> {
    match std::fs::read(path(home, session_id)?) {
        Ok(bytes) => Ok(Some(Transcript::new(bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A name that is no UUID could lead anywhere.
fn path(home: &Path, session_id: &str) -> io::Result<PathBuf> {
    let name = Uuid::parse_str(session_id)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the session's name is no UUID"))?;
    Ok(home.join("sessions").join(format!("{name}.jsonl")))
}

fn lines(entries: impl IntoIterator<Item = Entry>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for entry in entries {
        serde_json::to_writer(&mut bytes, &entry)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}
