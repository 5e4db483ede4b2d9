//! Pushes steps to the mirror, behind the agent's back.
//!
//! Each push takes along all that has been taken since the last one. What the mirror refuses (it checks what it
//! stores, and a tree may hold what it does not take) is tried once more without the steps in between, so that one
//! bad tree does not keep out all that follow it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sunaba_git::{Error, Scratch};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Shared;

const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Longer than the bridge holds a request while the server is away.
const PUSH_MAX: Duration = Duration::from_secs(65 * 60);

/// A tree that is to be pushed.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) tree: String,
    /// The event that it comes after.
    pub(super) after: Option<String>,
}

/// Takes trees to be pushed.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    kept: Arc<Mutex<Vec<Kept>>>,
    wake: Arc<Notify>,
    shared: Arc<Shared>,
}

impl Queue {
    pub(super) fn push(&self, kept: Kept) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        self.shared.progress.send_modify(|progress| progress.taken += 1);
        self.wake.notify_one();
    }

    fn take(&self) -> Vec<Kept> {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Pushes what is in the queue.
#[derive(Debug)]
pub(super) struct Pusher {
    queue: Queue,
    origin: Option<String>,
    over: CancellationToken,
    /// What git is told through its environment: above all what opens the gateway.
    settings: Vec<(String, String)>,
}

/// A queue and what empties it.
pub(super) fn new(shared: Arc<Shared>, origin: Option<String>, over: CancellationToken) -> (Queue, Pusher) {
    let queue = Queue { kept: Arc::default(), wake: Arc::default(), shared };
    let settings = std::env::vars().filter(|(name, _)| name.starts_with("GIT_CONFIG_")).collect();
    (queue.clone(), Pusher { queue, origin, over, settings })
}

enum Fate {
    Pushed,
    Refused,
    Later,
}

impl Pusher {
    /// Runs until it is dropped, this attempt is over, or there is nowhere to push to.
    pub(super) async fn run(self, scratch: Scratch) {
        self.push_all(scratch).await;
        // Nothing more is pushed, and nobody should wait for it.
        self.queue.shared.progress.send_modify(|progress| progress.pushed = u64::MAX);
    }

    async fn push_all(&self, scratch: Scratch) {
        let mut tip = scratch.start().map(str::to_owned);
        let Some(origin) = self.origin.clone() else {
            tracing::warn!("steps are not pushed: the clone has no origin");
            return;
        };
        let mut batch = Vec::new();
        let mut pause = PAUSE_FIRST;
        while !self.over.is_cancelled() {
            batch.extend(self.queue.take());
            if batch.is_empty() {
                tokio::select! {
                    () = self.queue.wake.notified() => {}
                    () = self.over.cancelled() => {}
                }
                continue;
            }
            let mut fate = self.push(&scratch, &origin, &batch, &mut tip).await;
            if matches!(fate, Fate::Refused) && batch.len() > 1 {
                fate = self.push(&scratch, &origin, &batch[batch.len() - 1..], &mut tip).await;
            }
            if matches!(fate, Fate::Later) {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
                continue;
            }
            pause = PAUSE_FIRST;
            let dealt_with = batch.len() as u64;
            batch.clear();
            self.queue.shared.progress.send_modify(|progress| progress.pushed += dealt_with);
        }
    }

    async fn push(&self, scratch: &Scratch, origin: &str, batch: &[Kept], tip: &mut Option<String>) -> Fate {
        let pushed = async {
            let mut head = tip.clone();
            for Kept { tree, after } in batch {
                let message = format!("step\n\nSunaba-Event: {}\n", after.as_deref().unwrap_or("none"));
                head = Some(scratch.commit(tree, head.as_deref(), &message).await?);
            }
            if let Some(head) = &head {
                scratch.push(origin, head, &self.settings, PUSH_MAX).await?;
            }
            Ok::<_, Error>(head)
        };
        match pushed.await {
            Ok(head) => {
                *tip = head;
                Fate::Pushed
            }
            Err(error) => {
                tracing::warn!(%error, "a step was not pushed");
                if is_refused(&error) { Fate::Refused } else { Fate::Later }
            }
        }
    }
}

/// Whether trying the same again would change nothing.
fn is_refused(error: &Error) -> bool {
    match error {
        Error::Failed { operation, stderr } => operation != "push" || stderr.contains("[remote rejected]"),
        _ => false,
    }
}
