//! Keeps the write-ahead log short.
//!
//! SQLite starts the log anew only at a moment when no reader is in it. With
//! readers that never pause there is no such moment: the log grows, and every
//! commit that tries to checkpoint it takes longer. So the writer makes one:
//! while it writes nothing, everything can be copied into the database, readers
//! that start then need no log, and the few that were in it are soon through.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;

use crate::unit::Unit;

/// How often the log's size is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long to leave it after a reader did not get through in time.
const LEAVE_FOR: Duration = Duration::from_secs(5);
/// A log larger than this is started anew. More than what is left of it on disk after that.
const LARGE_BYTES: u64 = 32 * 1024 * 1024;

pub(super) struct LogKeeper {
    path: PathBuf,
    next_look: Instant,
}

impl LogKeeper {
    pub(super) fn new(connect: &SqliteConnectOptions) -> Self {
        let mut path = connect.get_filename().as_os_str().to_owned();
        path.push("-wal");
        Self { path: path.into(), next_look: Instant::now() + LOOK_EVERY }
    }

    /// Called between transactions.
    pub(super) async fn tend(&mut self, unit: &mut Unit) {
        let now = Instant::now();
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_EVERY;
        let size = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        if size <= LARGE_BYTES {
            return;
        }
        match unit.restart_log().await {
            Ok(true) => tracing::debug!(size, took = ?now.elapsed(), "started the write-ahead log anew"),
            Ok(false) => {
                tracing::warn!(size, "a long read keeps the write-ahead log from starting anew");
                self.next_look = Instant::now() + LEAVE_FOR;
            }
            Err(error) => {
                tracing::warn!(%error, size, "the write-ahead log could not be started anew");
                self.next_look = Instant::now() + LEAVE_FOR;
            }
        }
    }
}
