//! The thread that keeps in touch with the server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use sunaba_agent::Incoming;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::config::Identity;
use super::heartbeat::Heartbeat;
use super::http::Client;
use super::messages::Messages;
use super::report::{Reporter, Sender};

/// Messages that wait for the agent; the server keeps more.
const INBOX: usize = 64;
const THREAD_STACK_BYTES: usize = 512 * 1024;

/// The running thread. Dropping it ends its tasks.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// Cancelled when the server says that this sandbox has nothing more to say.
    pub(super) over: CancellationToken,
    /// Whether the agent waits for somebody; told in heartbeats.
    pub(super) waiting: Arc<AtomicBool>,
    stop: CancellationToken,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Upkeep {
    /// Starts heartbeat, sending and receiving; the agent has been told the message `told` already.
    pub(super) fn start(
        identity: &Identity,
        reporter: &Reporter,
        told: Option<String>,
    ) -> anyhow::Result<(Self, mpsc::Receiver<Incoming>)> {
        let (inbox, incoming) = mpsc::channel(INBOX);
        let (over, stop) = (CancellationToken::new(), CancellationToken::new());
        let waiting = Arc::new(AtomicBool::new(false));
        let client = || Client::new(&identity.callback_url, &identity.token);
        let base = format!("/api/v1/sandboxes/{}", identity.sandbox_id);
        let heartbeat = Heartbeat {
            reporter: reporter.clone(),
            client: client()?,
            path: format!("{base}/events"),
            every: identity.heartbeat,
            waiting: Arc::clone(&waiting),
            over: over.clone(),
        };
        let sender = Sender {
            reporter: reporter.clone(),
            client: client()?,
            path: format!("{base}/events/batch"),
            over: over.clone(),
        };
        let messages = Messages {
            client: client()?,
            path: format!("{base}/messages"),
            told: told.into_iter().collect(),
            inbox,
            over: over.clone(),
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("make the runtime")?;
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("upkeep".to_owned())
            .stack_size(THREAD_STACK_BYTES)
            .spawn(move || {
                runtime.block_on(async {
                    let mut tasks = tokio::task::JoinSet::new();
                    tasks.spawn(heartbeat.run());
                    tasks.spawn(sender.run());
                    tasks.spawn(messages.run());
                    // Tasks that are still running end here.
                    stopped.cancelled().await;
                });
            })
            .context("start the upkeep thread")?;
        Ok((Self { over, waiting, stop, thread: Some(thread) }, incoming))
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // It has nothing left to do but to end its tasks.
            let _ = thread.join();
        }
    }
}
