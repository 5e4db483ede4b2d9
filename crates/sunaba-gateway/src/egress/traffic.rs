//! A connection to the outside that is counted, and given up when nothing moves on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::patient::{Keeps, Minds, Patient};

/// Bytes carried.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// To the outside.
    pub(super) sent: AtomicU64,
    /// From it.
    pub(super) received: AtomicU64,
}

impl Keeps for Arc<Traffic> {
    fn sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    fn received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// See the module.
pub(super) type Outside = Patient<TcpStream, Arc<Traffic>>;

pub(super) fn outside(stream: TcpStream, patience: Duration, traffic: Arc<Traffic>) -> Outside {
    Patient::new(stream, traffic, Minds::Silence, patience)
}
