//! Remembers what may have to be sent again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::way::Line;

/// Most bytes of one request that are remembered.
pub const REPLAY_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Most bytes of a request to a stranger's server: its head, and little more.
const EGRESS_REPLAY_MAX_BYTES: usize = 64 * 1024;
/// Memory kept between requests.
const KEEP_BYTES: usize = 64 * 1024;
/// How a request begins that may be made twice.
const REPEATABLE: [&[u8]; 3] = [b"CONNECT ", b"GET ", b"HEAD "];

/// What a client sent since the last byte of an answer.
#[derive(Debug)]
pub(super) struct Replay {
    line: Line,
    /// How much is remembered at most.
    most: usize,
    bytes: Vec<u8>,
    /// More was sent than is remembered: it cannot be sent again.
    overflowed: bool,
    /// The client has stopped sending.
    client_done: bool,
}

impl Replay {
    const fn of(line: Line) -> Self {
        let most = match line {
            Line::Gateway => REPLAY_MAX_BYTES,
            Line::Egress => EGRESS_REPLAY_MAX_BYTES,
        };
        Self { line, most, bytes: Vec::new(), overflowed: false, client_done: false }
    }

    pub(super) fn sent(&mut self, bytes: &[u8]) {
        if self.overflowed {
            return;
        }
        if self.bytes.len() + bytes.len() > self.most {
            self.overflowed = true;
            self.bytes = Vec::new();
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// A byte of an answer came: what was sent before is dealt with.
    pub(super) fn answered(&mut self) {
        // Through the egress proxy what follows may be inside a tunnel: never again the start of a request.
        self.overflowed = self.line == Line::Egress;
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
        self.most.saturating_sub(self.bytes.len())
    }

    /// What to send again; `None` when sending again would be wrong or there is nothing to send.
    pub(super) fn pending(&self) -> Option<&[u8]> {
        let whole = !self.bytes.is_empty() && !self.overflowed && !self.client_done;
        (whole && self.is_repeatable()).then_some(&self.bytes)
    }

    /// What to send to the first server that is found.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes
    }

    /// Our own server knows a request that it has seen before; strangers' servers need not.
    fn is_repeatable(&self) -> bool {
        self.line == Line::Gateway || REPEATABLE.iter().any(|start| self.bytes.starts_with(start))
    }
}

/// A [`Replay`] that both directions of one connection use, never at once and never across a wait.
#[derive(Debug)]
pub(super) struct Memory(Mutex<Replay>);

impl Memory {
    pub(super) const fn of(line: Line) -> Self {
        Self(Mutex::new(Replay::of(line)))
    }

    pub(super) fn get(&self) -> MutexGuard<'_, Replay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unanswered_request_is_sent_again() {
        let mut replay = Replay::of(Line::Gateway);
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
        let mut replay = Replay::of(Line::Gateway);
        replay.sent(&vec![0; REPLAY_MAX_BYTES]);
        assert!(replay.pending().is_some());
        replay.sent(b"x");
        assert_eq!(replay.pending(), None);
        replay.answered();
        replay.sent(b"next");
        assert_eq!(replay.pending(), Some(&b"next"[..]));
    }

    #[test]
    fn only_a_first_request_that_may_be_made_twice_is_sent_to_strangers_again() {
        let pending = |bytes: &[u8]| {
            let mut replay = Replay::of(Line::Egress);
            replay.sent(bytes);
            replay.pending().is_some()
        };
        assert!(pending(b"CONNECT example.org:443 HTTP/1.1\r\n"));
        assert!(pending(b"GET http://example.org/ HTTP/1.1\r\n"));
        assert!(!pending(b"POST http://example.org/ HTTP/1.1\r\n"));
        assert!(!pending(&[b'x'; EGRESS_REPLAY_MAX_BYTES + 1]));
        let mut replay = Replay::of(Line::Egress);
        replay.sent(b"CONNECT example.org:80 HTTP/1.1\r\n\r\n");
        replay.answered();
        replay.sent(b"GET / HTTP/1.1\r\n");
        assert_eq!(replay.pending(), None, "inside a tunnel it is no request to the proxy");
    }
}
