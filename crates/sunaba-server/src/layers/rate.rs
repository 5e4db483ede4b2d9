//! How much one token may ask for. Events are counted, not only the requests that carry them. An administrator's token
//! is not held back: whoever has it may stop the server too, and programs that speak for many sandboxes use it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use tokio_util::sync::CancellationToken;

use crate::auth::{Identity, Role};
use crate::{ApiError, Limits};

/// Seconds of unused allowance that may be spent at once.
const BURST_SECONDS: u32 = 2;
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// The buckets.
#[derive(Debug, Clone)]
pub(crate) struct RateLimits {
    requests: Arc<DefaultKeyedRateLimiter<u64>>,
    events: Arc<DefaultKeyedRateLimiter<u64>>,
}

impl RateLimits {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            requests: Arc::new(DefaultKeyedRateLimiter::keyed(quota(limits.requests_per_second))),
            events: Arc::new(DefaultKeyedRateLimiter::keyed(quota(
                limits.events_per_second.max(Limits::EVENTS_FLOOR),
            ))),
        }
    }

    /// Counts one request.
    pub(crate) fn request(&self, identity: &Identity) -> Result<(), ApiError> {
        if identity.role == Role::Admin {
            return Ok(());
        }
        self.requests.check_key(&identity.rate_key).map_err(|wait| slow_down(&wait))
    }

    /// Counts events; all or none.
    pub(crate) fn events(&self, identity: &Identity, count: usize) -> Result<(), ApiError> {
        let Some(count) = u32::try_from(count).ok().and_then(NonZeroU32::new) else { return Ok(()) };
        if identity.role == Role::Admin {
            return Ok(());
        }
        match self.events.check_key_n(&identity.rate_key, count) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(wait)) => Err(slow_down(&wait)),
            Err(_) => Err(ApiError::too_many("rate_limited", "so many events at once never pass", 1)),
        }
    }

    /// Forgets tokens that have not been seen for a while.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(TIDY_EVERY) => {
                    self.requests.retain_recent();
                    self.events.retain_recent();
                }
            }
        }
    }
}

fn quota(per_second: u32) -> Quota {
    let rate = NonZeroU32::new(per_second).unwrap_or(NonZeroU32::MIN);
    let burst = NonZeroU32::new(per_second.saturating_mul(BURST_SECONDS)).unwrap_or(NonZeroU32::MIN);
    Quota::per_second(rate).allow_burst(burst)
}

fn slow_down(wait: &governor::NotUntil<<DefaultClock as governor::clock::Clock>::Instant>) -> ApiError {
    let seconds = wait.wait_time_from(DefaultClock::default().now()).as_secs_f64().ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a small range")]
    let seconds = seconds.clamp(1.0, 60.0) as u32;
    ApiError::too_many("rate_limited", "this token asks too often; try again", seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_never_held_below_the_floor() {
        let rates = RateLimits::new(Limits { events_per_second: 1, ..Limits::default() });
        let identity = Identity::open();
        for _ in 0..4 {
            rates.events(&identity, 500).expect("2,000 events a second pass whatever is set");
        }
    }

    #[test]
    fn an_administrator_is_not_held_back() {
        let rates = RateLimits::new(Limits { requests_per_second: 1, ..Limits::default() });
        let admin = Identity { role: Role::Admin, ..Identity::open() };
        for _ in 0..10 {
            rates.request(&admin).expect("any number of requests");
            rates.events(&admin, 100_000).expect("any number of events");
        }
        assert!((0..10).any(|_| rates.events(&Identity::open(), 100_000).is_err()), "others are");
    }

    #[test]
    fn requests_are_limited_for_each_token_on_its_own() {
        let rates = RateLimits::new(Limits { requests_per_second: 1, ..Limits::default() });
        let (one, mut other) = (Identity::open(), Identity::open());
        other.rate_key = 1;
        assert!(rates.request(&one).is_ok() && rates.request(&one).is_ok());
        assert_eq!(rates.request(&one).unwrap_err().status(), http::StatusCode::TOO_MANY_REQUESTS);
        assert!(rates.request(&other).is_ok());
    }
}
