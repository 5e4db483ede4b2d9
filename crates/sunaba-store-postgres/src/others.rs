//! Whether another server may want to be told of a commit.
//!
//! To tell a commit is work for it, for the database and for who listens; alone a server would tell itself. Servers say
//! now and then that they are there ([`HELLO`]), by the way on which commits are told. Whoever has listened for a while
//! and heard nobody is alone and tells nothing of what it appends. If it is wrong the others are late: they also look by
//! themselves from time to time.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a server says that is there: a position that nobody is behind.
pub(crate) const HELLO: i64 = 0;

/// See the module.
#[derive(Debug)]
pub(crate) struct Others {
    /// How long nobody must have been heard.
    alone_after: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Nobody can be heard.
    Deaf,
    /// When somebody was heard last, or could have been for the first time.
    Heard(Instant),
}

impl Others {
    pub(crate) fn new(alone_after: Duration) -> Self {
        Self { alone_after, state: Mutex::new(State::Deaf) }
    }

    /// Another one was heard, or from now on could be.
    pub(crate) fn heard(&self, at: Instant) {
        *self.state() = State::Heard(at);
    }

    /// Nobody can be heard any more.
    pub(crate) fn deaf(&self) {
        *self.state() = State::Deaf;
    }

    /// Whether commits are worth telling.
    pub(crate) fn may_listen(&self, now: Instant) -> bool {
        match *self.state() {
            State::Deaf => true,
            State::Heard(at) => now.saturating_duration_since(at) < self.alone_after,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_listened_for_long_and_heard_nobody_is_alone() {
        let (others, start) = (Others::new(Duration::from_secs(10)), Instant::now());
        let after = |seconds| others.may_listen(start + Duration::from_secs(seconds));
        assert!(after(1000), "who cannot hear knows of nobody");
        others.heard(start);
        assert!(after(0) && after(9) && !after(10));
        others.heard(start + Duration::from_secs(20));
        assert!(after(29) && !after(30));
        others.deaf();
        assert!(after(1000));
    }
}
