//! Time is a parameter: code that needs "now" is handed a clock.

use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};

/// Tells the time. Whatever it returns is cut to whole microseconds, because
/// that is what is hashed and stored.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        whole_micros(Timestamp::now())
    }
}

/// A clock that tests move by hand.
#[derive(Debug)]
pub struct FakeClock(Mutex<Timestamp>);

impl FakeClock {
    /// Starts at the given moment.
    pub fn at(start: Timestamp) -> Self {
        Self(Mutex::new(whole_micros(start)))
    }

    /// Moves time on.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *now = now.saturating_add(by).expect("a signed duration never overflows a saturating add");
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn whole_micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).expect("microseconds of a valid timestamp are in range")
}
