//! Events on disk between being told and being acknowledged.
//!
//! One file of JSON lines and one that says how far it is acknowledged. Written
//! without syncing: it has to survive the worker's death, not the machine's. A
//! torn last line (killed in the middle of a write) is cut off when it is opened.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Waiting bytes above which command output is left out.
pub const SPOOL_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Acknowledged bytes that are worth rewriting the file for.
const COMPACT_BYTES: u64 = 32 * 1024 * 1024;
const SCAN_BYTES: usize = 64 * 1024;

/// The file of waiting events.
#[derive(Debug)]
pub struct Spool {
    file: File,
    path: PathBuf,
    mark: File,
    /// Length of the file.
    length: u64,
    /// Everything before this is acknowledged.
    acknowledged: u64,
    limit: u64,
    dropped: u64,
    /// Lines that could not be written (a full disk); they go first when writing works again.
    unwritten: Vec<u8>,
}

/// Some waiting events, as lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) lines: Vec<Vec<u8>>,
    bytes: u64,
}

impl Spool {
    /// Opens the spool of this directory, with whatever an earlier worker could not send.
    pub fn open(dir: &Path, limit: u64) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let open = |name: &str| {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(dir.join(name))
        };
        let path = dir.join("events.jsonl");
        let (file, mark) = (open("events.jsonl")?, open("acknowledged")?);
        let length = whole_lines(&file)?;
        file.set_len(length)?;
        let mut spool =
            Self { file, path, mark, length, acknowledged: 0, limit, dropped: 0, unwritten: Vec::new() };
        spool.acknowledged = spool.read_mark().filter(|mark| *mark <= length).unwrap_or(0);
        Ok(spool)
    }

    /// Adds an event; `false` when it was command output and there is no room for it.
    pub(super) fn append(&mut self, line: &[u8], is_output: bool) -> bool {
        if is_output && (!self.unwritten.is_empty() || self.length - self.acknowledged >= self.limit) {
            self.dropped += 1;
            return false;
        }
        self.unwritten.extend_from_slice(line);
        self.unwritten.push(b'\n');
        self.write_out();
        true
    }

    fn write_out(&mut self) {
        match self.file.write_all_at(&self.unwritten, self.length) {
            Ok(()) => {
                self.length += self.unwritten.len() as u64;
                self.unwritten.clear();
                self.unwritten.shrink_to(SCAN_BYTES);
            }
            // Half a line must not stay behind. What could not be written waits in memory.
            Err(_) => drop(self.file.set_len(self.length)),
        }
    }

    /// The oldest waiting events, at most so many and so large; at least one if there is any.
    pub(super) fn peek(&mut self, max_events: usize, max_bytes: usize) -> io::Result<Batch> {
        if !self.unwritten.is_empty() {
            self.write_out();
        }
        let mut lines = Vec::new();
        let (mut at, mut bytes) = (self.acknowledged, 0usize);
        let mut rest: Vec<u8> = Vec::new();
        'reading: while at < self.length {
            let mut chunk = vec![0; SCAN_BYTES];
            let read = self.file.read_at(&mut chunk, at)?;
            if read == 0 {
                break;
            }
            at += read as u64;
            rest.extend_from_slice(&chunk[..read]);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                if lines.len() == max_events || (!lines.is_empty() && bytes + end >= max_bytes) {
                    break 'reading;
                }
                let mut line: Vec<u8> = rest.drain(..=end).collect();
                bytes += line.len();
                line.pop();
                lines.push(line);
            }
            if lines.len() == max_events || bytes + rest.len() >= max_bytes && !lines.is_empty() {
                break;
            }
        }
        Ok(Batch { lines, bytes: bytes as u64 })
    }

    /// Forgets a batch that the server has.
    pub(super) fn acknowledge(&mut self, batch: &Batch) -> io::Result<()> {
        self.acknowledged += batch.bytes;
        if self.acknowledged >= self.length {
            // In this order: killed in between, events are sent again, which is harmless.
            self.acknowledged = 0;
            self.length = 0;
            self.write_mark()?;
            return self.file.set_len(0);
        }
        if self.acknowledged > COMPACT_BYTES && self.acknowledged > self.length - self.acknowledged {
            self.compact()?;
        }
        self.write_mark()
    }

    fn compact(&mut self) -> io::Result<()> {
        let mut rest = vec![0; usize::try_from(self.length - self.acknowledged).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut rest, self.acknowledged)?;
        let temporary = self.path.with_extension("new");
        let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&temporary)?;
        file.write_all(&rest)?;
        self.acknowledged = 0;
        self.length = rest.len() as u64;
        self.write_mark()?;
        std::fs::rename(&temporary, &self.path)?;
        self.file = file;
        Ok(())
    }

    /// How many events wait.
    pub(super) fn waiting_events(&self) -> u64 {
        let mut count = 0;
        let mut at = self.acknowledged;
        let mut chunk = vec![0; SCAN_BYTES];
        while let Ok(read @ 1..) = self.file.read_at(&mut chunk, at) {
            count += chunk[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
            at += read as u64;
        }
        count
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    fn read_mark(&self) -> Option<u64> {
        let mut bytes = [0; 20];
        self.mark.read_exact_at(&mut bytes, 0).ok()?;
        std::str::from_utf8(&bytes).ok()?.trim().parse().ok()
    }

    fn write_mark(&self) -> io::Result<()> {
        self.mark.write_all_at(format!("{:>20}", self.acknowledged).as_bytes(), 0)
    }
}

/// The length of the file up to its last line end.
fn whole_lines(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut chunk = vec![0; SCAN_BYTES];
    while end > 0 {
        let from = end.saturating_sub(SCAN_BYTES as u64);
        let part = &mut chunk[..usize::try_from(end - from).map_err(io::Error::other)?];
        file.read_exact_at(part, from)?;
        if let Some(last) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + last as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(batch: &Batch) -> Vec<String> {
        batch.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    #[test]
    fn what_was_not_acknowledged_is_there_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), SPOOL_MAX_BYTES).unwrap();
        for line in ["one", "two", "three"] {
            assert!(spool.append(line.as_bytes(), false));
        }
        let first = spool.peek(1, 1000).unwrap();
        assert_eq!(texts(&first), ["one"]);
        spool.acknowledge(&first).unwrap();
        drop(spool);
        let mut again = Spool::open(dir.path(), SPOOL_MAX_BYTES).unwrap();
        assert_eq!(again.waiting_events(), 2);
        let rest = again.peek(500, 1000).unwrap();
        assert_eq!(texts(&rest), ["two", "three"]);
        again.acknowledge(&rest).unwrap();
        assert_eq!(again.peek(500, 1000).unwrap().lines.len(), 0);
        assert_eq!(std::fs::metadata(dir.path().join("events.jsonl")).unwrap().len(), 0);
    }

    #[test]
    fn a_torn_line_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("events.jsonl"), "whole\nto").unwrap();
        let mut spool = Spool::open(dir.path(), SPOOL_MAX_BYTES).unwrap();
        spool.append(b"next", false);
        assert_eq!(texts(&spool.peek(10, 1000).unwrap()), ["whole", "next"]);
    }

    #[test]
    fn a_full_spool_leaves_out_only_command_output() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), 100).unwrap();
        assert!(spool.append(&[b'x'; 100], true));
        assert!(!spool.append(b"output", true));
        assert!(spool.append(b"story", false));
        assert_eq!(spool.dropped(), 1);
        let all = spool.peek(10, 10_000).unwrap();
        assert_eq!(all.lines.len(), 2);
        spool.acknowledge(&all).unwrap();
        assert!(spool.append(b"output", true), "room again");
    }

    #[test]
    fn batches_keep_to_their_bounds_but_never_starve() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(dir.path(), SPOOL_MAX_BYTES).unwrap();
        for size in [10, 200_000, 10, 10] {
            spool.append(&vec![b'x'; size], false);
        }
        let sizes = |batch: &Batch| batch.lines.iter().map(Vec::len).collect::<Vec<_>>();
        let first = spool.peek(10, 1000).unwrap();
        assert_eq!(sizes(&first), [10]);
        spool.acknowledge(&first).unwrap();
        let large = spool.peek(10, 1000).unwrap();
        assert_eq!(sizes(&large), [200_000], "one that is too large goes alone");
        spool.acknowledge(&large).unwrap();
        assert_eq!(sizes(&spool.peek(10, 1000).unwrap()), [10, 10]);
    }
}
