//! Hints of commits, also of other servers': PostgreSQL tells whoever listens the feed's new position.
//!
//! A hint may come late or not at all; whoever follows the feed also looks by itself from time to time. A server's
//! own commits, as far as they are told ([`Others`]), come back to it too, often before their answer; they are passed
//! over, because whoever is told of a commit reads it, and the writer is about to hand on what it wrote without anybody
//! having to read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::open::CHANNEL;
use crate::others::Others;

/// How long after a failure it is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// After so long without a word the connection is asked whether it is well: a dead one says nothing either.
const QUIET: Duration = Duration::from_secs(5);
/// How long it may take to say so.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

pub(crate) struct Listener {
    pub(crate) pool: PgPool,
    pub(crate) hint: Arc<watch::Sender<i64>>,
    pub(crate) teller: Arc<str>,
    pub(crate) others: Arc<Others>,
    pub(crate) stop: CancellationToken,
}

impl Listener {
    pub(crate) async fn run(self) {
        let mut told = false;
        loop {
            let ended = tokio::select! {
                () = self.stop.cancelled() => return,
                ended = self.listen() => ended,
            };
            self.others.deaf();
            match ended {
                // It had listened; what follows is worth a word again.
                Ok(()) => told = false,
                Err(error) if !told => {
                    tracing::warn!(%error, "other servers' commits are not told for now; the feed is polled");
                    told = true;
                }
                Err(_) => {}
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// Listens until the connection is lost.
    async fn listen(&self) -> Result<(), sqlx::Error> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen(CHANNEL).await?;
        self.others.heard(Instant::now());
        // What was told before somebody listened is looked up.
        let position = sqlx::query_scalar!("SELECT position FROM feed_counter").fetch_one(&self.pool).await?;
        advance(&self.hint, position);
        loop {
            let Ok(told) = timeout(QUIET, listener.try_recv()).await else {
                if is_well(&mut listener).await {
                    continue;
                }
                return Ok(());
            };
            let Some(told) = told? else { return Ok(()) };
            let (position, teller) = told.payload().split_once(' ').unwrap_or((told.payload(), ""));
            if *teller == *self.teller {
                continue;
            }
            self.others.heard(Instant::now());
            if let Ok(position) = position.parse() {
                advance(&self.hint, position);
            }
        }
    }
}

async fn is_well(listener: &mut PgListener) -> bool {
    matches!(timeout(ANSWERS_WITHIN, sqlx::raw_sql("SELECT 1").execute(listener)).await, Ok(Ok(_)))
}

/// Moves the hint on; never back, because commits may be told in any order.
pub(crate) fn advance(hint: &watch::Sender<i64>, position: i64) {
    hint.send_if_modified(|held| {
        let later = position > *held;
        *held = position.max(*held);
        later
    });
}
