//! Steps: the tree of files after each tool call that changed any, whatever the agent and whatever the tool.
//!
//! A thread of its own looks at the work tree when a tool is done, takes what changed, tells each file that the
//! runtime has not told of itself (`agent.file_edited`) and then the step (`agent.step`), and pushes it to `refs/sunaba/<sandbox>` behind the agent's back.
//! The agent never waits for a push. It waits for a look only before it changes something again, and then not
//! long, so that the work of two calls is told apart.

mod capture;
mod keeper;
mod pusher;
mod told;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use sunaba_git::Scratch;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::keeper::Keeper;
use super::report::Reporter;

/// How long the next tool that changes something is held for a look at what the last one did.
const HELD_MAX: Duration = Duration::from_millis(300);
const THREAD_STACK_BYTES: usize = 512 * 1024;
/// Calls that wait for a look; beyond that the latest counts for all.
const WAITING_MAX: usize = 1000;

/// What is looked at and where it goes.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) sandbox_id: String,
    pub(super) work_tree: PathBuf,
    /// Where the scratch repository lies.
    pub(super) scratch: PathBuf,
    /// Cancelled when this attempt is over: nothing is pushed then.
    pub(super) over: CancellationToken,
}

/// A tool call that is done and may have changed files.
#[derive(Debug, Clone, Default)]
pub(super) struct Done {
    pub(super) turn: u32,
    pub(super) tool_use_id: Option<String>,
    /// The event that told that it is done.
    pub(super) event_id: Option<String>,
    /// The files that the runtime itself has told of: they are not told again.
    pub(super) edits: Vec<String>,
}

/// How far it is: looks asked for and done, steps taken and pushed (or given up).
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    asked: u64,
    looked: u64,
    taken: u64,
    pushed: u64,
}

/// What the agent's thread and the steps' thread share.
#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Vec<Done>>,
    wake: Notify,
    progress: watch::Sender<Progress>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Vec<Done>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running thread. Dropping it ends what it does.
#[derive(Debug)]
pub(super) struct Steps {
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Steps {
    /// Begins to look; the tree as it is now is where the first step starts from.
    pub(super) fn start(wanted: Wanted, reporter: Reporter) -> anyhow::Result<Self> {
        let (shared, stop) = (Arc::<Shared>::default(), CancellationToken::new());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("make the runtime")?;
        let (of_thread, stopped) = (Arc::clone(&shared), stop.clone());
        let thread = std::thread::Builder::new()
            .name("steps".to_owned())
            .stack_size(THREAD_STACK_BYTES)
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = keep(wanted, reporter, of_thread) => {}
                        () = stopped.cancelled() => {}
                    }
                });
            })
            .context("start the thread of steps")?;
        Ok(Self { shared, stop, thread: Some(thread) })
    }

    /// A tool is done: what it changed is looked for, soon.
    pub(super) fn look(&self, done: Done) {
        let mut waiting = self.shared.waiting();
        if waiting.len() < WAITING_MAX {
            waiting.push(done);
        } else if let Some(last) = waiting.last_mut() {
            *last = done;
        }
        // Counted under the lock: whoever takes what waits knows how much was asked.
        self.shared.progress.send_modify(|progress| progress.asked += 1);
        drop(waiting);
        self.shared.wake.notify_one();
    }

    /// Waits until everything asked for so far has been looked at, or a moment.
    pub(super) async fn settled(&self) {
        self.looked(HELD_MAX).await;
    }

    /// Looks a last time at what is there.
    pub(super) async fn finish(&self, patience: Duration) {
        self.look(Done::default());
        if !self.looked(patience).await {
            tracing::warn!("the last step was not taken in time");
        }
    }

    /// Waits until every step is pushed or given up; whether they are.
    pub(super) async fn push_out(&self, patience: Duration) -> bool {
        self.until(patience, |progress| progress.pushed >= progress.taken).await
    }

    async fn looked(&self, patience: Duration) -> bool {
        let asked = self.shared.progress.borrow().asked;
        self.until(patience, |progress| progress.looked >= asked).await
    }

    async fn until(&self, patience: Duration, is_so: impl Fn(&Progress) -> bool) -> bool {
        let mut progress = self.shared.progress.subscribe();
        matches!(timeout(patience, progress.wait_for(is_so)).await, Ok(Ok(_)))
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // It has nothing left to do but to end its git.
            let _ = thread.join();
        }
    }
}

async fn keep(wanted: Wanted, reporter: Reporter, shared: Arc<Shared>) {
    let reference = format!("refs/sunaba/{}", wanted.sandbox_id);
    let opened = Scratch::open(&wanted.scratch, &wanted.work_tree, &reference).await;
    let origin = Scratch::origin(&wanted.work_tree).await.ok();
    let (queue, pusher) = pusher::new(Arc::clone(&shared), origin, wanted.over);
    let mut keeper = Keeper::new(wanted.work_tree, reporter, shared, queue);
    match opened {
        Ok(scratch) => {
            let pushing = pusher.run(scratch.clone());
            tokio::join!(keeper.run(Some(scratch)), pushing);
        }
        Err(error) => {
            tracing::warn!(%error, "no steps are taken in this run");
            keeper.run(None).await;
        }
    }
}
