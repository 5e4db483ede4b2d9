//! Publishes the feed on Redis.
//!
//! ```text
//!   follow ──the lease is free──▶ begin ──▶ lead ──somebody else has the lease──▶ follow
//! ```
//!
//! There is no queue: who leads reads the feed page by page and sends it. A node that follows sends nothing but
//! a small question, and remembers up to where the other has come.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;
use sunaba_store::{FeedEntry, PAGE_BYTES, Store};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::connection::Connector;
use crate::names::{Names, channel};
use crate::start::Known;
use crate::{Error, Status};

/// How long a node leads without saying so again.
const LEASE: Duration = Duration::from_secs(1);
/// How often it says so, how often others ask, and how often the feed is read without a hint.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How many entries are read at once; the store also ends a page by its bytes.
const PAGE: u32 = 128;
/// A larger frame goes out without its payload.
pub(crate) const FRAME_MAX: usize = 64 * 1024;
/// About how much is sent at once: Redis does nothing else in the meantime.
const BATCH_BYTES: usize = 1024 * 1024;
/// How long one read of the feed may take.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// What survives a lost connection.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) store: Arc<dyn Store>,
    /// Tells this process from all others.
    pub(crate) name: String,
    pub(crate) backlog: i64,
    pub(crate) status: watch::Sender<Status>,
}

/// One entry, ready to be sent.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) position: i64,
    pub(crate) channel: String,
    pub(crate) frame: String,
}

impl Message {
    fn of(entry: &FeedEntry) -> Self {
        let mut frame = entry.frame();
        if frame.len() > FRAME_MAX {
            frame = entry.frame_without_payload();
        }
        Self { position: entry.position, channel: channel(&entry.event_type), frame }
    }
}

/// What Redis says to a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) leads: bool,
    pub(crate) published: Option<i64>,
}

/// Sends batches; the script compares before it publishes.
pub(crate) struct Wire<'a> {
    pub(crate) connector: &'a Connector,
    pub(crate) names: &'a Names,
    pub(crate) connection: MultiplexedConnection,
}

impl Wire<'_> {
    pub(crate) async fn turn(&mut self, name: &str, batch: &[Message]) -> Result<Turn, Error> {
        let script = Script::new(include_str!("scripts/publish.lua"));
        let mut asked = script.key(&self.names.published);
        asked.key(&self.names.publisher).arg(name).arg(LEASE.as_millis().to_string());
        for message in batch {
            asked.arg(message.position).arg(&message.channel).arg(&message.frame);
        }
        let answer = self.connector.in_time(asked.invoke_async(&mut self.connection)).await?;
        let (leads, published): (i64, i64) = answer;
        Ok(Turn { leads: leads == 1, published: (published >= 0).then_some(published) })
    }

    async fn lower(&mut self, from: i64, to: i64) -> Result<(), Error> {
        let script = Script::new(include_str!("scripts/lower.lua"));
        let mut asked = script.key(&self.names.published);
        self.connector.in_time(asked.arg(from).arg(to).invoke_async(&mut self.connection)).await
    }

    /// Lets another node lead at once.
    pub(crate) async fn leave(&mut self, name: &str) -> Result<(), Error> {
        let script = Script::new(include_str!("scripts/leave.lua"));
        let mut asked = script.key(&self.names.publisher);
        self.connector.in_time(asked.arg(name).invoke_async(&mut self.connection)).await
    }
}

impl Publisher {
    /// Goes on until something is wrong with Redis, and gives that.
    pub(crate) async fn run(&self, mut wire: Wire<'_>) -> Result<Infallible, Error> {
        loop {
            let found = self.follow(&mut wire).await?;
            if let Err(error) = self.begin_and_lead(&mut wire, found).await? {
                // Without the feed there is nothing to publish; whoever can read it may lead meanwhile.
                tracing::debug!(%error, "cannot read the feed to publish it");
                self.status.send_modify(|status| {
                    status.leads = false;
                    status.last_error = Some(format!("cannot read the feed: {error}"));
                });
                tokio::time::sleep(LEASE).await;
            }
        }
    }

    /// Asks until the lease is this node's; gives up to where Redis knows things to be published.
    async fn follow(&self, wire: &mut Wire<'_>) -> Result<Option<i64>, Error> {
        loop {
            let turn = wire.turn(&self.name, &[]).await?;
            if turn.leads {
                return Ok(turn.published);
            }
            self.status.send_modify(|status| {
                (status.connected, status.leads) = (true, false);
                status.published = status.published.max(turn.published);
            });
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The outer error is Redis's, the inner one the store's.
    async fn begin_and_lead(
        &self,
        wire: &mut Wire<'_>,
        found: Option<i64>,
    ) -> Result<sunaba_store::Result<()>, Error> {
        let head = match in_time(self.store.feed_head()).await {
            Ok(head) => head,
            Err(error) => return Ok(Err(error)),
        };
        let known = Known { own: self.status.borrow().published, redis: found, head };
        let start = known.start(self.backlog);
        if let Some(from) = start.lower {
            wire.lower(from, start.after).await?;
        }
        if start.left_out > 0 {
            tracing::warn!(positions = start.left_out, "too far behind: not published on Redis");
        }
        self.status.send_modify(|status| {
            (status.connected, status.leads) = (true, true);
            status.published = Some(start.after);
        });
        self.lead(wire, start.after).await
    }

    async fn lead(&self, wire: &mut Wire<'_>, mut after: i64) -> Result<sunaba_store::Result<()>, Error> {
        let mut hints = self.store.hints();
        let mut said_at = Instant::now();
        loop {
            hints.borrow_and_update();
            let page = match in_time(self.store.feed_after(after, PAGE)).await {
                Ok(page) => page,
                Err(error) => return Ok(Err(error)),
            };
            // A page may also have ended early, by its bytes.
            let full = page.len() >= PAGE as usize
                || page.iter().map(|entry| entry.payload_bytes()).sum::<usize>() >= PAGE_BYTES;
            if !page.is_empty() || said_at.elapsed() >= LOOK_EVERY {
                if !self.send(wire, page, &mut after).await? {
                    return Ok(Ok(()));
                }
                said_at = Instant::now();
            }
            if !full && let Ok(Err(_)) = tokio::time::timeout(LOOK_EVERY, hints.changed()).await {
                // The store is closed; the service is about to be stopped.
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Sends a page in batches; false when somebody else leads, or Redis knows of later positions.
    async fn send(
        &self,
        wire: &mut Wire<'_>,
        page: Vec<Arc<FeedEntry>>,
        after: &mut i64,
    ) -> Result<bool, Error> {
        for batch in batches(page) {
            let turn = wire.turn(&self.name, &batch).await?;
            let reached = batch.last().map_or(*after, |message| message.position);
            if !turn.leads || turn.published > Some(reached) {
                return Ok(false);
            }
            *after = reached;
            self.status.send_if_modified(|status| status.published.replace(reached) != Some(reached));
        }
        Ok(true)
    }
}

/// Bounded pieces of a page; an empty page is one empty piece, which renews the lease.
fn batches(page: Vec<Arc<FeedEntry>>) -> impl Iterator<Item = Vec<Message>> {
    let mut entries = page.into_iter();
    let mut first = true;
    std::iter::from_fn(move || {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES
            && let Some(entry) = entries.next()
        {
            let message = Message::of(&entry);
            bytes += message.frame.len();
            batch.push(message);
        }
        (std::mem::take(&mut first) || !batch.is_empty()).then_some(batch)
    })
}

async fn in_time<T>(read: impl Future<Output = sunaba_store::Result<T>>) -> sunaba_store::Result<T> {
    let late = |_| sunaba_store::Error::Backend("reading the feed took too long".into());
    tokio::time::timeout(READ_TIMEOUT, read).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

#[cfg(test)]
mod tests;
