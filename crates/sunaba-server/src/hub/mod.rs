//! Live events: one tailer reads the feed, everyone else reads what it read.
//!
//! The tailer is woken by the store's hint and looks at least every
//! [`crate::LiveLimits::poll_every`]; it puts each entry once, as the frame
//! that goes out, into a bounded ring. A subscriber holds only a position: it
//! reads from the ring, or from the store when its position is older than the
//! ring. So nothing is lost or doubled, and a reader that stands still costs
//! the others nothing.

mod filter;
mod frame;
mod ring;
mod watchers;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use sunaba_nodes::Loops;
use sunaba_store::{PAGE_BYTES, Store};
use sunaba_types::SandboxId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use filter::Filters;
pub(crate) use frame::Frame;
use ring::Ring;
pub(crate) use watchers::Watch;
use watchers::Watchers;

use crate::{LiveLimits, telemetry};

/// How many entries are read from the store at once. An entry may have a megabyte.
const PAGE: u32 = 128;
/// How many frames a subscriber is handed at once.
pub(crate) const HANDFUL: usize = 64;
/// How long one read of the feed may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// What a subscriber gets for its position.
#[derive(Debug)]
pub(crate) enum Reading {
    /// The next frames, oldest first; none when it is up to date.
    Frames(Vec<Arc<Frame>>),
    /// The ring has moved past the position; the store has the rest.
    Past,
}

/// A cheap handle on the live events.
#[derive(Debug, Clone)]
pub struct Hub(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    limits: LiveLimits,
    ring: RwLock<Ring>,
    /// The last position in the ring; `None` until the tailer has read the feed's head.
    head: watch::Sender<Option<i64>>,
    watchers: Watchers,
    /// How many readers were too slow. The metric counts for the whole process, this one for this hub.
    cut_readers: AtomicU64,
}

impl Hub {
    /// A hub that knows nothing until [`Hub::run`] is started.
    pub(crate) fn new(store: Arc<dyn Store>, limits: LiveLimits) -> Self {
        Self(Arc::new(Inner {
            store,
            limits,
            ring: RwLock::new(Ring::new(limits.ring_entries, limits.ring_bytes)),
            head: watch::Sender::new(None),
            watchers: Watchers::default(),
            cut_readers: AtomicU64::new(0),
        }))
    }

    /// The last position that subscribers can see; `None` while the feed has not been read.
    pub fn head(&self) -> Option<i64> {
        *self.0.head.borrow()
    }

    /// Changes with every new position.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<i64>> {
        self.0.head.subscribe()
    }

    /// The next frames after a position, from memory.
    pub(crate) fn read(&self, after: i64) -> Reading {
        self.0.ring.read().unwrap_or_else(PoisonError::into_inner).after(after, HANDFUL)
    }

    /// The next frames after a position, from the store.
    pub(crate) async fn read_stored(&self, after: i64) -> sunaba_store::Result<Vec<Arc<Frame>>> {
        let limit = u32::try_from(HANDFUL).unwrap_or(PAGE);
        let entries = self.0.store.feed_after(after, limit).await?;
        Ok(entries.into_iter().map(|entry| Arc::new(Frame::of(entry))).collect())
    }

    /// Counts a reader that was cut off for being too slow.
    pub(crate) fn count_cut_reader(&self) {
        metrics::counter!(telemetry::CUT_READERS).increment(1);
        self.0.cut_readers.fetch_add(1, Ordering::Relaxed);
    }

    /// How many readers were cut off for being too slow.
    pub fn cut_readers(&self) -> u64 {
        self.0.cut_readers.load(Ordering::Relaxed)
    }

    /// Signals about one sandbox, for as long as the watch is held.
    pub(crate) fn watch(&self, sandbox_id: &SandboxId) -> Watch {
        self.0.watchers.watch(sandbox_id)
    }

    /// Whether anyone here waits for news of the sandbox.
    pub fn is_watched(&self, sandbox_id: &SandboxId) -> bool {
        self.0.watchers.has(sandbox_id)
    }

    /// Wakes the sandbox's long polls: a message was just queued in this process.
    pub fn message_queued(&self, sandbox_id: &SandboxId) {
        self.0.watchers.message(sandbox_id);
    }

    /// Reads the feed until shutdown, and says after each reading how it went.
    pub(crate) async fn run(self, loops: Loops, shutdown: CancellationToken) {
        let mut hints = self.0.store.hints();
        let mut outage = Outage::default();
        while !shutdown.is_cancelled() {
            hints.borrow_and_update();
            let began = Instant::now();
            let page = tokio::select! {
                () = shutdown.cancelled() => return,
                page = tokio::time::timeout(READ_TIMEOUT, self.advance()) => page,
            };
            loops.round("feed", began, matches!(page, Ok(Ok(_))));
            match page {
                Ok(Ok(Progress::More)) => {
                    outage.over();
                    continue;
                }
                Ok(Ok(Progress::UpToDate)) => outage.over(),
                Ok(Err(error)) => outage.note(&error),
                Err(_) => outage.note(&"reading the feed took too long"),
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                changed = hints.changed() => if changed.is_err() {
                    // The store's writer is gone; polling goes on until shutdown.
                    tokio::time::sleep(self.0.limits.poll_every).await;
                },
                () = tokio::time::sleep(self.0.limits.poll_every) => {}
            }
        }
    }

    /// Reads one page into the ring.
    async fn advance(&self) -> sunaba_store::Result<Progress> {
        let Some(head) = self.head() else {
            let head = self.0.store.feed_head().await?;
            self.0.ring.write().unwrap_or_else(PoisonError::into_inner).start_after(head);
            self.0.head.send_replace(Some(head));
            return Ok(Progress::More);
        };
        let entries = self.0.store.feed_after(head, PAGE).await?;
        let Some(last) = entries.last().map(|entry| entry.position) else { return Ok(Progress::UpToDate) };
        // A page may also have ended early, by its bytes.
        let full = entries.len() >= PAGE as usize
            || entries.iter().map(|entry| entry.payload_bytes()).sum::<usize>() >= PAGE_BYTES;
        let frames: Vec<Arc<Frame>> = entries.into_iter().map(|entry| Arc::new(Frame::of(entry))).collect();
        {
            let mut ring = self.0.ring.write().unwrap_or_else(PoisonError::into_inner);
            for frame in &frames {
                ring.push(Arc::clone(frame));
            }
        }
        self.0.head.send_replace(Some(last));
        self.0.watchers.published(&frames);
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; positions stay far below 2^52")]
        metrics::gauge!(telemetry::FEED_POSITION).set(last as f64);
        Ok(if full { Progress::More } else { Progress::UpToDate })
    }
}

enum Progress {
    More,
    UpToDate,
}

/// Says once that the feed cannot be read, and once that it can again.
#[derive(Debug, Default)]
struct Outage(bool);

impl Outage {
    fn note(&mut self, error: &dyn std::fmt::Display) {
        if !std::mem::replace(&mut self.0, true) {
            tracing::warn!(%error, "cannot read the feed; live streams stand still");
        }
    }

    fn over(&mut self) {
        if std::mem::take(&mut self.0) {
            tracing::info!("the feed can be read again");
        }
    }
}
