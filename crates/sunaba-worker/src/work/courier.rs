//! Sends the agent's conversation to the server as it grows, beside the work.
//!
//! What is sent is what the runtime has on disk, so that it is the same that a killed agent would leave. Each time all of
//! it goes: a pause that grows with the time that takes keeps a long conversation from filling the line.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sunaba_types::chain::{Hash, sha256};
use sunaba_types::limits::BLOB_MAX_BYTES;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::config::{Assignment, Identity};
use super::http::Client;
use super::report::Reporter;

/// The shortest and the longest pause between two times.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// So much longer than the sending itself the pause is.
const PAUSE_FACTOR: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(60);
/// Before another try while the server is away.
const AWAY_PAUSE: Duration = Duration::from_secs(2);
/// Refusals in a row after which the server is believed.
const REFUSALS_MAX: u32 = 5;

/// What is to be sent.
#[derive(Debug, Clone, Default)]
struct Wanted {
    session_id: String,
    turns: u32,
    /// Rises with every wish.
    serial: u64,
    /// Up to here nobody wants to wait for a pause.
    urgent: u64,
}

/// Asks for conversations to be sent. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Courier {
    wanted: watch::Sender<Wanted>,
    sent: watch::Receiver<Sent>,
}

/// Up to which wish something was done, and whether that was to send it.
#[derive(Debug, Clone, Copy)]
struct Sent {
    serial: u64,
    kept: bool,
}

impl Courier {
    /// Starts sending what the agent's runtime keeps in `home`. Ends when the last courier is dropped.
    pub(super) fn start(
        identity: &Identity,
        reporter: Reporter,
        assignment: &Assignment,
        home: PathBuf,
    ) -> anyhow::Result<Self> {
        let (wanted, wishes) = watch::channel(Wanted::default());
        let (done, sent) = watch::channel(Sent { serial: 0, kept: true });
        let client = Client::new(&identity.callback_url, &identity.token)?;
        let path = format!("/api/v1/sandboxes/{}/transcripts", identity.sandbox_id);
        let shelf = Arc::new(Shelf { assignment: assignment.clone(), home });
        tokio::spawn(Sending { client, path, reporter, shelf, wishes, done, last: None }.run());
        Ok(Self { wanted, sent })
    }

    /// From now on this conversation is meant.
    pub(super) fn about(&self, session_id: &str) {
        self.wanted.send_modify(|wanted| session_id.clone_into(&mut wanted.session_id));
    }

    /// Something was added.
    pub(super) fn grown(&self, turns: u32) {
        self.wanted.send_modify(|wanted| {
            wanted.turns = wanted.turns.max(turns);
            wanted.serial += 1;
        });
    }

    /// Waits until the server has all of it; whether it has.
    pub(super) async fn flush(&self, patience: Duration) -> bool {
        let mut serial = 0;
        self.wanted.send_modify(|wanted| {
            wanted.serial += 1;
            wanted.urgent = wanted.serial;
            serial = wanted.serial;
        });
        let mut sent = self.sent.clone();
        let done = sent.wait_for(|sent| sent.serial >= serial);
        matches!(timeout(patience, done).await, Ok(Ok(sent)) if sent.kept)
    }
}

/// Why a conversation was not sent.
#[derive(Debug)]
enum Trouble {
    /// Nobody answered, or not now.
    Away(anyhow::Error),
    /// Sending the same again would end the same way.
    Refused(anyhow::Error),
}

/// Where a runtime keeps conversations.
struct Shelf {
    assignment: Assignment,
    home: PathBuf,
}

struct Sending {
    client: Client,
    path: String,
    reporter: Reporter,
    shelf: Arc<Shelf>,
    wishes: watch::Receiver<Wanted>,
    done: watch::Sender<Sent>,
    /// What the server has.
    last: Option<(String, Hash)>,
}

impl Sending {
    async fn run(mut self) {
        let mut pause = PAUSES.0;
        let mut refusals = 0;
        loop {
            if self.wishes.wait_for(|wanted| wanted.serial > self.done.borrow().serial).await.is_err() {
                return;
            }
            let urgent = self.wishes.wait_for(|wanted| wanted.urgent > self.done.borrow().serial);
            let _ = timeout(pause, urgent).await;
            let wanted = self.wishes.borrow_and_update().clone();
            let began = Instant::now();
            let kept = match self.send(&wanted).await {
                Ok(()) => true,
                Err(Trouble::Away(error)) => {
                    tracing::warn!(%error, "the conversation was not sent; trying again");
                    sleep(AWAY_PAUSE).await;
                    continue;
                }
                Err(Trouble::Refused(error)) => {
                    tracing::warn!(%error, "the conversation was refused");
                    refusals += 1;
                    if refusals < REFUSALS_MAX {
                        sleep(PAUSES.0 * refusals).await;
                        continue;
                    }
                    false
                }
            };
            refusals = 0;
            pause = (began.elapsed() * PAUSE_FACTOR).clamp(PAUSES.0, PAUSES.1);
            self.done.send_replace(Sent { serial: wanted.serial, kept });
        }
    }

    async fn send(&mut self, wanted: &Wanted) -> Result<(), Trouble> {
        let (shelf, session) = (Arc::clone(&self.shelf), wanted.session_id.clone());
        let reporter = self.reporter.clone();
        let read = tokio::task::spawn_blocking(move || shelf.read(&session, &reporter)).await;
        let read = read.map_err(std::io::Error::other).and_then(|read| read);
        let Some((bytes, hash)) = read.map_err(|error| Trouble::Refused(error.into()))? else {
            return Ok(());
        };
        if bytes.len() > BLOB_MAX_BYTES {
            tracing::warn!(bytes = bytes.len(), "the conversation is too long to be kept by the server");
            return Ok(());
        }
        let this = Some((wanted.session_id.clone(), hash));
        if self.last == this {
            return Ok(());
        }
        let path = format!("{}/{}?turns={}", self.path, wanted.session_id, wanted.turns);
        let answer = self.client.put(&path, bytes, PATIENCE).await;
        let answer = answer.map_err(|error| Trouble::Away(error.into()))?;
        if !answer.status.is_success() {
            let error = anyhow::anyhow!("status {} ({})", answer.status, answer.code().unwrap_or_default());
            let will_pass = answer.status.is_server_error() || [408, 429].contains(&answer.status.as_u16());
            return Err(if will_pass { Trouble::Away(error) } else { Trouble::Refused(error) });
        }
        self.last = this;
        Ok(())
    }
}

impl Shelf {
    /// The conversation without the sandbox's token: whoever may read it may not act as the sandbox.
    fn read(&self, session_id: &str, reporter: &Reporter) -> std::io::Result<Option<(Bytes, Hash)>> {
        let runtime = self.assignment.agent.runtime(&self.assignment.native);
        let found = runtime.find_transcript(&self.home, &self.assignment.cwd, session_id)?;
        Ok(found.map(|transcript| {
            // Some runtimes keep a database, or note the lengths of what they keep.
            let mut bytes = transcript.as_bytes().to_vec();
            reporter.cover_token(&mut bytes);
            let hash = sha256(&bytes);
            (Bytes::from(bytes), hash)
        }))
    }
}
