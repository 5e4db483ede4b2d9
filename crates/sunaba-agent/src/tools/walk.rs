//! Walks a directory for the tools that search: everything but `.git`, bounded, and no longer than wanted.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use walkdir::WalkDir;

const ENTRIES_MAX: usize = 300_000;

/// The files below `base`, in the order of their names.
pub(super) struct Walk {
    entries: Box<dyn Iterator<Item = walkdir::DirEntry>>,
    halt: CancellationToken,
    seen: usize,
}

impl Walk {
    pub(super) fn new(base: &Path, halt: &CancellationToken) -> Self {
        let entries = WalkDir::new(base)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
            // What cannot be read is passed over: one closed directory must not hide the rest.
            .filter_map(Result::ok);
        Self { entries: Box::new(entries), halt: halt.clone(), seen: 0 }
    }

    /// Whether the walk ended before everything was seen.
    pub(super) fn was_cut(&self) -> bool {
        self.seen >= ENTRIES_MAX || self.halt.is_cancelled()
    }
}

impl Iterator for Walk {
    type Item = PathBuf;

    fn next(&mut self) -> Option<PathBuf> {
        loop {
            if self.was_cut() {
                return None;
            }
            let entry = self.entries.next()?;
            self.seen += 1;
            let is_link_to_file = || entry.path_is_symlink() && entry.path().is_file();
            if entry.file_type().is_file() || is_link_to_file() {
                return Some(entry.into_path());
            }
        }
    }
}
