//! Looks when a tool is done, and tells what was found.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sunaba_git::Scratch;
use sunaba_types::{Source, Step};

use super::capture::{Capture, LeftOut, Taken, Trouble};
use super::pusher::{Kept, Queue};
use super::{Done, Shared, told};
use crate::work::report::Reporter;

/// Files that are told one by one of one step; of more only their number.
const FILES_MAX: usize = 200;
/// Looks in a row that may fail before no more are tried.
const FAILURES_MAX: u32 = 3;
/// Reading every file once, when the clone's index does not fit the disk.
const REFRESH_MAX: Duration = Duration::from_secs(120);

/// The steps' own side.
#[derive(Debug)]
pub(super) struct Keeper {
    work_tree: PathBuf,
    reporter: Reporter,
    shared: Arc<Shared>,
    queue: Queue,
    /// The last call that was told of: what comes without one is its.
    last: Done,
    failures: u32,
}

impl Keeper {
    pub(super) fn new(work_tree: PathBuf, reporter: Reporter, shared: Arc<Shared>, queue: Queue) -> Self {
        Self { work_tree, reporter, shared, queue, last: Done::default(), failures: 0 }
    }

    /// Runs until it is dropped. Without a scratch repository nothing is looked at.
    pub(super) async fn run(&mut self, scratch: Option<Scratch>) {
        let mut capture = match scratch {
            Some(scratch) => self.begin(scratch).await,
            None => None,
        };
        loop {
            let (asked, waiting) = self.asked();
            if waiting.is_empty() {
                self.shared.wake.notified().await;
                continue;
            }
            self.merge(waiting);
            if let Some(looking) = &mut capture {
                let result = looking.take().await;
                let left_out = std::mem::take(&mut looking.left_out);
                if self.tell(result, &left_out) == Next::Stop {
                    capture = None;
                }
            }
            self.shared.progress.send_modify(|progress| progress.looked = asked);
        }
    }

    async fn begin(&self, scratch: Scratch) -> Option<Capture> {
        let refreshed = scratch.refresh(REFRESH_MAX).await.map_err(Trouble::Git);
        let begun = match refreshed {
            Ok(()) => Capture::begin(scratch, self.work_tree.clone()).await,
            Err(trouble) => Err(trouble),
        };
        begun.inspect_err(|trouble| self.tell_trouble(trouble, "no steps are taken in this run")).ok()
    }

    fn asked(&self) -> (u64, Vec<Done>) {
        let mut waiting = self.shared.waiting();
        (self.shared.progress.borrow().asked, std::mem::take(&mut waiting))
    }

    /// What several calls changed meanwhile cannot be told apart: it is the last one's.
    fn merge(&mut self, waiting: Vec<Done>) {
        for done in waiting {
            let mut edits = std::mem::take(&mut self.last.edits);
            edits.extend(done.edits);
            if done.event_id.is_some() {
                self.last = Done { edits: Vec::new(), ..done };
            }
            self.last.edits = edits;
        }
    }

    fn tell(&mut self, result: Result<Option<Taken>, Trouble>, left_out: &[(String, LeftOut)]) -> Next {
        let next = match result {
            Ok(taken) => {
                self.failures = 0;
                if let Some(taken) = taken {
                    self.tell_step(&taken);
                }
                self.last.edits.clear();
                Next::GoOn
            }
            Err(trouble) => {
                self.failures += 1;
                let over = self.failures >= FAILURES_MAX || matches!(trouble, Trouble::TooMany(_));
                let after = if over { "no more steps are taken in this run" } else { "no step was taken" };
                self.tell_trouble(&trouble, after);
                if over { Next::Stop } else { Next::GoOn }
            }
        };
        if !left_out.is_empty() {
            let event = told::left_out(self.last.turn, left_out);
            self.reporter.emit(told::SKIPPED, Source::Worker, event);
        }
        next
    }

    fn tell_trouble(&self, trouble: &Trouble, after: &str) {
        tracing::warn!(reason = trouble.reason(), %trouble, "{after}");
        let event = told::skipped(self.last.turn, trouble.reason(), &format!("{trouble}; {after}"));
        self.reporter.emit(told::SKIPPED, Source::Worker, event);
    }

    /// Tells each change and the step, and hands the tree to be pushed.
    fn tell_step(&mut self, taken: &Taken) {
        let told: HashSet<String> =
            self.last.edits.drain(..).filter_map(|path| within(&self.work_tree, &path)).collect();
        for change in taken.changes.files.iter().take(FILES_MAX).filter(|change| !told.contains(&change.path))
        {
            let fields = told::edited(&self.last, change, taken.changes.piece(change));
            self.reporter.emit(told::EDITED, Source::Agent, fields);
        }
        let step = Step {
            tree: taken.tree.clone(),
            parent: Some(taken.parent.clone()),
            event_id: self.last.event_id.clone(),
        };
        let fields = told::step(&self.last, &step, &taken.changes.files, FILES_MAX);
        self.reporter.emit_with(told::STEP, Source::Worker, fields, Some(&step));
        self.queue.push(Kept { tree: step.tree, after: step.event_id });
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

/// A path as git names it, when it lies in the tree; links on the way are followed.
fn within(work_tree: &Path, path: &str) -> Option<String> {
    let path = work_tree.join(path);
    let real = path.canonicalize().unwrap_or(path);
    let top = work_tree.canonicalize().unwrap_or_else(|_| work_tree.to_owned());
    real.strip_prefix(top).ok().map(|path| path.to_string_lossy().into_owned())
}
