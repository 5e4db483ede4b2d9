//! Nodes wake each other: each tells the positions that its store hints at, and hears those of the others.
//!
//! A word here is never believed: it makes somebody look at the feed, which they do from time to time anyway.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use redis::AsyncCommands as _;
use redis::aio::{MultiplexedConnection, PubSub};
use sunaba_store::Store;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Error;
use crate::connection::Connector;
use crate::names::Names;

/// The least time between two hints of a node: under load one hint stands for many commits.
const SPACING: Duration = Duration::from_millis(5);
/// How often the listening connection is tried; a dead one brings nothing, and that looks like silence.
const TRY_EVERY: Duration = Duration::from_secs(5);

/// Tells and hears, for as long as Redis answers.
#[derive(Debug)]
pub(crate) struct Hints {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) heard: watch::Sender<i64>,
}

impl Hints {
    /// Goes on until something is wrong, and gives that.
    pub(crate) async fn run(
        &self,
        connector: &Connector,
        names: &Names,
        mut commands: MultiplexedConnection,
        listening: PubSub,
    ) -> Result<Infallible, Error> {
        let (mut asks, mut messages) = listening.split();
        let mut local = self.store.hints();
        let mut told = *local.borrow_and_update();
        let mut tell_at = Instant::now();
        let mut tries = tokio::time::interval_at(Instant::now() + TRY_EVERY, TRY_EVERY);
        loop {
            let waiting = *local.borrow() > told && *local.borrow() != *self.heard.borrow();
            tokio::select! {
                message = messages.next() => {
                    let Some(message) = message else { return Err(connector.cut()) };
                    self.hear(message.get_payload_bytes());
                }
                () = tokio::time::sleep_until(tell_at), if waiting => {
                    told = *local.borrow_and_update();
                    let _: i64 = connector.in_time(commands.publish(&names.hint, told)).await?;
                    tell_at = Instant::now() + SPACING;
                }
                changed = local.changed(), if !waiting => if changed.is_err() {
                    // The store is closed; the service is about to be stopped.
                    std::future::pending::<()>().await;
                },
                _ = tries.tick() => {
                    let _: redis::Value = connector.in_time(asks.ping()).await?;
                }
            }
        }
    }

    fn hear(&self, payload: &[u8]) {
        let Some(position) = std::str::from_utf8(payload).ok().and_then(|text| text.parse().ok()) else {
            return;
        };
        self.heard.send_if_modified(|held| std::mem::replace(held, position) != position);
        self.store.nudge(position);
    }
}
