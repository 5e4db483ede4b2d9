//! How long a sandbox has been silent, and what is due then.
//!
//! ```text
//! heard ──a window──▶ warned ──half──▶ unresponsive ──half──▶ interrupted ──half──▶ failed
//!   ▲                                                                    (each half a window)
//!   └── heard again, or nobody could have heard it
//! ```
//! Only silence that was watched counts. Whoever could not look for a while (it just started, its store was away, it
//! was itself held up) has heard nothing, and that says nothing about the sandbox: a whole window begins anew.

use std::time::{Duration, Instant};

use sunaba_types::limits::{CONTINUOUS_SILENCE_SECONDS, HEARTBEAT_SECONDS, SILENCE_MIN_SECONDS};

/// A longer pause between two looks is a gap. Short beside the shortest window, long beside the pause that is usual.
const GAP_MAX: Duration = Duration::from_secs(5);
/// The longest time between heartbeats that a worker may declare, in seconds.
const HEARTBEAT_MAX_SECONDS: f64 = 60.0;

/// The window of a worker that heartbeats whatever its agent does, in seconds: two beats and a half.
#[expect(clippy::cast_possible_truncation, reason = "both are bounded, and a float's cast saturates")]
pub fn window_of(heartbeat_seconds: Option<f64>) -> i64 {
    let every = heartbeat_seconds.filter(|every| every.is_finite()).unwrap_or(HEARTBEAT_SECONDS);
    let beats = CONTINUOUS_SILENCE_SECONDS as f64 / HEARTBEAT_SECONDS;
    let window = (every.min(HEARTBEAT_MAX_SECONDS) * beats).ceil() as i64;
    window.max(SILENCE_MIN_SECONDS)
}

/// How far a silence has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// It was heard within its window.
    Heard,
    /// It was not, and that is told.
    Warned,
    /// It is asked for at its provider.
    Unresponsive,
    /// It is told to end, so that it may still save its work.
    Interrupted,
    /// It is ended.
    Failed,
}

impl Rung {
    const fn next(self) -> Self {
        match self {
            Self::Heard => Self::Warned,
            Self::Warned => Self::Unresponsive,
            Self::Unresponsive => Self::Interrupted,
            Self::Interrupted | Self::Failed => Self::Failed,
        }
    }

    /// How long it takes from here to the next one.
    fn step(self, window: Duration) -> Duration {
        match self {
            Self::Heard => window,
            Self::Warned | Self::Unresponsive | Self::Interrupted | Self::Failed => window / 2,
        }
    }
}

/// Since when the rows are seen without a gap.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sight(Option<Unbroken>);

#[derive(Debug, Clone, Copy)]
struct Unbroken {
    since: Instant,
    last: Instant,
}

impl Sight {
    /// A look went well.
    pub fn saw(&mut self, now: Instant) {
        let since = self.unbroken_since(now).unwrap_or(now);
        self.0 = Some(Unbroken { since, last: now });
    }

    /// A look failed.
    pub fn lost(&mut self) {
        self.0 = None;
    }

    /// Since when there was no gap; none if there is one now.
    pub fn unbroken_since(&self, now: Instant) -> Option<Instant> {
        let unbroken = self.0?;
        (now.saturating_duration_since(unbroken.last) <= GAP_MAX).then_some(unbroken.since)
    }
}

/// What a judge sees of a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct Look<S> {
    /// When.
    pub now: Instant,
    /// Changes whenever the sandbox is heard.
    pub sign: S,
    /// Since when it could have been heard without a gap, up to now.
    pub unbroken_since: Option<Instant>,
    /// How long it may be silent.
    pub window: Duration,
}

/// What has come of a silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is one rung further; the last one is repeated until it is done.
    Up {
        /// Where it is now.
        rung: Rung,
        /// How long nothing was heard, as far as that was watched.
        silent: Duration,
    },
    /// It is over, after something was told of it.
    HeardAgain,
}

/// One sandbox's silence.
#[derive(Debug)]
pub struct Silence<S> {
    sign: Option<S>,
    rung: Rung,
    /// Since when it is silent and that is watched.
    since: Instant,
    /// When it came to its rung.
    on_rung_since: Instant,
    /// Whether something was told that is not taken back yet.
    is_told: bool,
}

impl<S: PartialEq> Silence<S> {
    /// Begins to listen. `is_told` says that others have told of a silence that is not over yet.
    pub fn new(now: Instant, is_told: bool) -> Self {
        Self { sign: None, rung: Rung::Heard, since: now, on_rung_since: now, is_told }
    }

    /// Begins anew: what was before says nothing any more.
    pub fn begin(&mut self, now: Instant) {
        (self.rung, self.since, self.on_rung_since) = (Rung::Heard, now, now);
    }

    /// Decides what is due. A rung is never left out, and each takes its whole time, however late the looks are.
    pub fn look(&mut self, look: Look<S>) -> Option<Step> {
        let Look { now, sign, unbroken_since, window } = look;
        // The first sign that is seen may be an old one.
        let known = self.sign.as_ref().is_none_or(|known| *known == sign);
        self.sign = Some(sign);
        if !known {
            self.begin(now);
            return std::mem::take(&mut self.is_told).then_some(Step::HeardAgain);
        }
        match unbroken_since {
            None => self.begin(now),
            Some(since) if since > self.since => self.begin(since),
            Some(_) => {}
        }
        if now.saturating_duration_since(self.on_rung_since) < self.rung.step(window) {
            return None;
        }
        self.rung = self.rung.next();
        self.on_rung_since = now;
        self.is_told = true;
        Some(Step::Up { rung: self.rung, silent: now.saturating_duration_since(self.since) })
    }
}

#[cfg(test)]
mod tests;
