//! Remembers what may have to be sent again.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most bytes of one request that are remembered.
pub const REPLAY_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Memory kept between requests.
const KEEP_BYTES: usize = 64 * 1024;

/// What a client sent since the last byte of an answer.
#[derive(Debug, Default)]
pub(super) struct Replay {
    bytes: Vec<u8>,
    /// More was sent than is remembered: it cannot be sent again.
    overflowed: bool,
    /// The client has stopped sending.
    client_done: bool,
}

impl Replay {
    pub(super) fn sent(&mut self, bytes: &[u8]) {
        if self.overflowed {
            return;
        }
        if self.bytes.len() + bytes.len() > REPLAY_MAX_BYTES {
            self.overflowed = true;
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// A byte of an answer came: what was sent before is dealt with.
    pub(super) fn answered(&mut self) {
        self.overflowed = false;
        if self.bytes.capacity() > KEEP_BYTES {
            self.bytes = Vec::new();
        } else {
            self.bytes.clear();
        }
    }

    pub(super) fn client_done(&mut self) {
        self.client_done = true;
    }

    /// How much may still be remembered.
    pub(super) fn room(&self) -> usize {
        REPLAY_MAX_BYTES.saturating_sub(self.bytes.len())
    }

    /// What to send again; `None` when sending again would be wrong or there is nothing to send.
    pub(super) fn pending(&self) -> Option<&[u8]> {
        (!self.bytes.is_empty() && !self.overflowed && !self.client_done).then_some(&self.bytes)
    }
}

/// A [`Replay`] that both directions of one connection use, never at once and never across a wait.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Replay>);

impl Memory {
    pub(super) fn get(&self) -> MutexGuard<'_, Replay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unanswered_request_is_sent_again() {
        let mut replay = Replay::default();
        assert_eq!(replay.pending(), None);
        replay.sent(b"one");
        assert_eq!(replay.pending(), Some(&b"one"[..]));
        replay.answered();
        assert_eq!(replay.pending(), None);
        replay.sent(b"two");
        replay.client_done();
        assert_eq!(replay.pending(), None, "nobody waits for the answer");
    }

    #[test]
    fn too_much_is_forgotten_until_the_next_answer() {
        let mut replay = Replay::default();
        replay.sent(&vec![0; REPLAY_MAX_BYTES]);
        assert!(replay.pending().is_some());
        replay.sent(b"x");
        assert_eq!(replay.pending(), None);
        replay.answered();
        replay.sent(b"next");
        assert_eq!(replay.pending(), Some(&b"next"[..]));
    }
}
